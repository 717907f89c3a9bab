/* tokenizers.mjs - compares the token ids of the engine with those of the tokenizer that a model was
 * converted from.
 *
 *   tokenizers.mjs checkpoint FOLDER OUT   a checkpoint of one block with the tokenizer of FOLDER
 *   tokenizers.mjs compare FOLDER MODEL    "equal total", and a line for each text that differs
 */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync, existsSync } from "node:fs";
import { join } from "node:path";

const WIDTH = 32;

/* Scripts of many languages, code, numbers, white space, emoji, and letters in two forms. */
const TEXTS = [
    "Hello, world!", "The quick brown fox jumps over the lazy dog.", "I'm sure they'll say we've DON'T'd it.",
    "Über die Brücke gehen größere Füße.", "Où est l'élève près de la forêt ?", "El niño comió piñas en la mañana.",
    "A ação começa amanhã às três.", "Příliš žluťoučký kůň úpěl ďábelské ódy.", "Zażółć gęślą jaźń.",
    "Быстрая коричневая лиса прыгает.", "Съешь ещё этих мягких французских булок.", "Η γρήγορη καφέ αλεπού πηδάει.",
    "السلام عليكم ورحمة الله", "مَرْحَبًا بِالْعَالَم", "שלום עולם, מה שלומך?", "नमस्ते दुनिया, आप कैसे हैं?",
    "বাংলা ভাষায় একটি বাক্য।", "வணக்கம் உலகம்", "สวัสดีชาวโลก", "ሰላም ልዑል", "გამარჯობა მსოფლიო", "Բարեւ աշխարհ",
    "你好,世界!今天天气怎么样?", "中文和English混合的句子123。", "繁體中文也要測試一下。", "こんにちは世界。カタカナもあります。",
    "안녕하세요 세계, 오늘은 날씨가 좋네요.", "Xin chào thế giới, hôm nay trời đẹp quá.", "Türkçe'de ığdır ve İstanbul.",
    "int main(void)\n{\n\treturn printf(\"%d\\n\", 42);\n}\n", "def f(x):\n    return [i**2 for i in range(x) if i % 2 == 0]\n",
    "SELECT * FROM t WHERE a >= 10 AND b <> 'x';", "<div class=\"a\">&nbsp;</div><!-- x -->", "{\"key\": [1, 2.5e-3, null, true]}",
    "#include <stdio.h>\r\n#define X(a) (a)\r\n", "$HOME/.config && rm -rf ./*.o || exit 1", "https://example.org/a?b=c&d=%20e#f",
    "1234567890", "3.14159 2,718,281 1e-10 0xDEADBEEF", "12 345 6789 01234 567890", "2024-12-31T23:59:59Z", "١٢٣٤٥ ४५६ ½ ² Ⅷ",
    " leading", "trailing ", "  two  spaces  ", "a   b    c     d", "\n\n\n", "a\n\nb\n \n c\t\td", "    indented\n        more",
    "\t\ttabs\t", "\r\n\r\n", "", "a\u00a0b\u3000c\u2003d", "😀😃 👍🏽 👩‍👩‍👧‍👦 🇩🇪 ❤️", "e\u0301 a\u0308 n\u0303 (decomposed)", "é ä ñ (composed)",
    "ﬁ ﬂ ﬀ Å Å K", "…—–“”‘’«»", "!!!???...", "a_b_c camelCase PascalCase SCREAMING_CASE kebab-case", "x=y+z*(a-b)/c%d^e&f|g~h",
    "WHO'S THAT? IT'S HE'D", "\u200bzero\u200dwidth\ufeff", "ǅ ǈ ℝ ℵ ∑∫√ ≤≥≠", "𝒳𝓎𝔷 𐍈 𠀀",
];

function files(folder) {
    const json = JSON.parse(readFileSync(join(folder, "tokenizer.json"), "utf8"));
    const path = join(folder, "tokenizer_config.json");
    return { json, config: existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : {} };
}

/* Weights with the given shapes, all zero. */
function checkpoint(folder, out) {
    const { json } = files(folder);
    const ids = [...Object.values(json.model.vocab), ...json.added_tokens.map((t) => t.id)];
    const rows = ids.reduce((most, id) => Math.max(most, id), 0) + 1;
    const l = "model.layers.0.";
    const shapes = { "model.embed_tokens.weight": [rows, WIDTH], "model.norm.weight": [WIDTH],
        [l + "input_layernorm.weight"]: [WIDTH], [l + "post_attention_layernorm.weight"]: [WIDTH] };
    for (const m of ["self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down"])
        shapes[l + m + "_proj.weight"] = [WIDTH, WIDTH];
    let at = 0;
    const header = {};
    for (const [name, shape] of Object.entries(shapes)) {
        const bytes = 2 * shape.reduce((a, b) => a * b);
        header[name] = { dtype: "F16", shape, data_offsets: [at, at += bytes] };
    }
    const text = Buffer.from(JSON.stringify(header)), size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(text.length));
    mkdirSync(out, { recursive: true });
    writeFileSync(join(out, "model.safetensors"), Buffer.concat([size, text, Buffer.alloc(at)]));
    writeFileSync(join(out, "config.json"), JSON.stringify({ architectures: ["LlamaForCausalLM"], hidden_size: WIDTH,
        intermediate_size: WIDTH, num_hidden_layers: 1, num_attention_heads: 1, num_key_value_heads: 1,
        max_position_embeddings: 512, rms_norm_eps: 1e-6, vocab_size: rows, tie_word_embeddings: true }));
    for (const name of ["tokenizer.json", "tokenizer_config.json"])
        if (existsSync(join(folder, name))) copyFileSync(join(folder, name), join(out, name));
}

async function compare(folder, path) {
    const { Tokenizer } = await import("./tokenizers/node_modules/@huggingface/tokenizers/dist/tokenizers.min.mjs")
        .catch(() => import("./tokenizers/node_modules/@huggingface/tokenizers/dist/tokenizers.mjs"));
    const { getLlama, LlamaLogLevel } = await import("node-llama-cpp");
    const { json, config } = files(folder);
    const tokenizer = new Tokenizer(json, config);
    const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error });
    const model = await llama.loadModel({ modelPath: path, vocabOnly: true });
    let equal = 0;
    const bad = [];
    for (const text of TEXTS) {
        const want = tokenizer.encode(text, { add_special_tokens: false }).ids.map(Number);
        const got = [...model.tokenize(text, false)].map(Number);
        if (want.join() === got.join()) equal++;
        else bad.push([JSON.stringify(text), want.join(" "), got.join(" ")].join("\t"));
    }
    console.log([equal, TEXTS.length].join("\t"));
    for (const line of bad) console.log(line);
    await model.dispose();
}

const [what, folder, path] = process.argv.slice(2);
if (what === "checkpoint") checkpoint(folder, path);
else await compare(folder, path);
process.exit(0);
