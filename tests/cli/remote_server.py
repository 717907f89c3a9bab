# remote_server.py FOLDER LOG: serves ranges of files, on a free port of 127.0.0.1 that it prints, and
# misbehaves where the first part of the path says so. LOG gets a line per request: path, bytes sent.
import http.server, os, sys, time

folder, log = sys.argv[1], open(sys.argv[2], "a", buffering=1)
asked, links = {}, []

class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def redirect(self, where):
        self.send_response(302)
        self.send_header("Location", where)
        self.send_header("X-Padding", "x" * 3000)
        self.send_header("Content-Length", "5000")
        self.end_headers()
        self.wfile.write(b"x" * 5000)

    def do_GET(self):
        how, name = self.path.split("?")[0].lstrip("/").split("/", 1)
        asked[self.path] = asked.get(self.path, 0) + 1
        if how == "moved":
            return self.redirect("/good/" + name)
        if how == "away":  # another name is another host for curl
            return self.redirect("http://localhost:%d/foreign/%s" % (self.server.server_address[1], name))
        if how == "foreign" and self.headers.get("Authorization"):
            return self.send_error(403)
        if how == "loop":
            return self.redirect("/loop/" + name)
        if how == "expiring":  # a new link for each request, which works once
            links.append("/once/%d/%s" % (len(links), name))
            return self.redirect(links[-1])
        if how == "once":
            if asked[self.path] > 1:
                return self.send_error(403)
            name = name.split("/", 1)[1]
        if how == "shorter":
            return self.send_error(416)
        if how == "secret" and self.headers.get("Authorization") != "Bearer hush":
            return self.send_error(401)
        if how == "busy" and asked[self.path] % 2:
            return self.send_error(503)
        if how == "page" and asked[self.path] % 2:  # of an error, as large as a part of the file
            self.send_response(503)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(b"x" * 100000)
            return
        try:
            file = open(os.path.join(folder, name), "rb")
            size = os.fstat(file.fileno()).st_size
        except OSError:
            return self.send_error(404)
        if how == "endless":
            self.send_response(206)
            for i in range(1000000):
                try:
                    self.wfile.write(b"X-Header-%d: %s\r\n" % (i, b"x" * 1000))
                except OSError:
                    return
            return
        if how == "unending":  # of no stated size, for longer than a test runs
            self.send_response(200)
            self.end_headers()
            for i in range(100000):
                if i > 100: time.sleep(0.05) # enough for every limit of the tests
                try:
                    self.wfile.write(bytes(65536))
                except OSError:
                    return
            return
        given = self.headers.get("Range")
        if how in ("whole",) or how.startswith("length:") or not given:
            first, last, status = 0, size - 1, 200
        else:
            first, last = [int(x) for x in given.split("=")[1].split("-")]
            last, status = min(last, size - 1), 206
        if first >= size:
            return self.send_error(416)
        file.seek(first)
        body = file.read(last + 1 - first)
        self.send_response(status)
        total, tag = size, '"one"'
        if how.startswith("total:"):
            total = how[6:]
        if how == "changed" and first:
            tag = '"two"'
        if how == "grown" and first:
            total += 1
        if status == 206 and how != "unsaid":
            self.send_header("Content-Range", "bytes %d-%d/%s" % (first + (how == "shifted"), last, total))
        self.send_header("ETag", tag)
        if how == "more":
            body += bytes(1 << 20)
        if how == "short" or how == "stops" and asked[self.path] % 2:
            self.send_header("Content-Length", str(len(body)))
            body = body[:len(body) // 2]
        elif how == "parts":  # never more than 1.5 MB
            self.send_header("Content-Length", str(len(body)))
            body = body[:1500000]
        elif how.startswith("length:"):
            self.send_header("Content-Length", how[7:])
        elif how != "more":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        log.write("%s %d\n" % (self.path, len(body)))
        try:
            if how in ("stalls", "slow"):
                self.wfile.write(body[:5000])
                for i in range(1000): # for longer than a test waits
                    time.sleep(0.2)
                    self.wfile.write(body[5000 + i:5000 + i + (how == "slow")])
            self.wfile.write(body)
        except OSError:
            pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
