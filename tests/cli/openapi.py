"""Compare answers of organ-api with docs/openapi.yaml: openapi.py SPEC < LINES

Each line is METHOD PATH FILE, where FILE holds the answer as a CGI program printed it. Prints
one line per difference. Members that the description does not list are differences too.
"""
import json, re, sys
import jsonschema, yaml

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
formats = jsonschema.FormatChecker(formats=())
formats.checks("date-time")(lambda v: not isinstance(v, str) or TIME.match(v) is not None)


def strict(node):
    """OpenAPI 3.0 to JSON Schema: nullable, and no members besides the listed ones."""
    if isinstance(node, list):
        return [strict(n) for n in node]
    if not isinstance(node, dict):
        return node
    out = {k: strict(v) for k, v in node.items()}
    if out.get("nullable") is True and isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"]
    if out.get("type") == "object" and isinstance(out.get("properties"), dict):
        out.setdefault("additionalProperties", False)
    return out


def resolve(spec, node):
    while "$ref" in node:
        target = spec
        for part in node["$ref"][2:].split("/"):
            target = target[part]
        node = target
    return node


def route(spec, path):
    """The path of the description, with the fewest placeholders."""
    found = [p for p in spec["paths"] if re.fullmatch(re.sub(r"\{[a-z]+\}", "[^/]+", p), path)]
    return min(found, key=lambda p: p.count("{"), default=None)


def difference(spec, method, path, raw):
    where = route(spec, path)
    head, _, body = raw.partition(b"\r\n\r\n")
    fields = dict(l.split(": ", 1) for l in head.decode().split("\r\n"))
    status, kind = fields["Status"].split()[0], fields["Content-Type"]
    if where is None or method.lower() not in spec["paths"][where]:
        return None if status in ("404", "405") else "not described"
    answers = spec["paths"][where][method.lower()]["responses"]
    answer = answers.get(status) or answers.get("default")
    content = resolve(spec, answer).get("content", {})
    if kind not in content:
        return "%s with the type %s is not described" % (status, kind)
    if kind == "application/json":
        schema = dict(content[kind].get("schema", {}), components=spec["components"])
        try:
            jsonschema.Draft4Validator(schema, format_checker=formats).validate(json.loads(body))
        except jsonschema.ValidationError as e:
            return "%s: %s at %s" % (status, e.message[:300], list(e.absolute_path))
    return None


def main():
    spec = strict(yaml.safe_load(open(sys.argv[1])))
    for line in sys.stdin:
        method, path, name = line.split()
        why = difference(spec, method, path, open(name, "rb").read())
        if why:
            print(method, path, why)


main()
