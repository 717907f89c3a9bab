/* engine.mjs - run models in llama.cpp (node-llama-cpp, CPU) for the tests.
 *
 *   engine.mjs ppl MODEL TEXT...     perplexity on each text file
 *   engine.mjs gen MODEL PROMPT N    N greedy tokens after the prompt
 *   engine.mjs batch                 jobs from stdin, one per line; see README.md
 *
 * A job is one line of tabs: op, model, text file or prompt, count, adapter.
 * An answer is one line of tabs on stdout: model, text or prompt, result, tokens.
 * The result of a job that fails is the word "error", then the reason; the others
 * go on and the exit status is 1 at the end (2 for wrong usage).
 *
 * The engine aborts its process on some broken models, so the jobs run in a child
 * that is started again after a crash: one bad model costs one line.
 */
import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";

const WINDOW = 192; /* tokens evaluated together, then the sequence is cleared */
const CONTEXT = 256; /* the engine rounds up to this anyway */
const THREADS = Number(process.env.ENGINE_THREADS) || 2; /* fixed: sums inside the engine may depend on it */
const LOG_WAIT_MS = 100; /* the engine's messages come later than its failures */

/* Tabs and line ends would break the output's columns. */
const oneLine = (s) => JSON.stringify(String(s)).slice(1, -1);

/* ==== Child: the engine ==== */

/* exp of the mean -log p(next token): each token of a window of WINDOW is scored
 * on its successor, the last one on the first token of the next window, so every
 * token of the text but the first counts once. p comes from the logits, a window
 * in one evaluation: log p = logit - max - log(sum exp(logit - max)). */
async function perplexity(seq, tokens) {
    let nll = 0, scored = 0;
    for (let at = 0; at + 1 < tokens.length; at += WINDOW) {
        const next = tokens.slice(at + 1, at + 1 + WINDOW);
        const ask = next.map((token, i) => [tokens[at + i], {
            generateNext: {
                /* The greedy choice has the largest logit; the option made for
                 * that, includeMax, gives nothing in 3.22.1. */
                logits: { filter: { tokens: [token], includeSelected: true } },
                options: { temperature: 0 },
                totalLogitWeight: true
            }
        }]);
        await seq.clearHistory();
        const got = await seq.controlledEvaluate(ask);
        for (let i = 0; i < next.length; i++) {
            const { logits, totalLogitWeight } = got[i].next;
            const max = Math.max(...logits.values());
            nll -= logits.get(next[i]) - max - Math.log(totalLogitWeight);
        }
        scored += next.length;
    }
    if (scored === 0) throw new Error("text is too short to score");
    if (!Number.isFinite(nll)) throw new Error("the model gives no finite probabilities");
    return { value: Math.exp(nll / scored), scored };
}

async function greedy(seq, tokens, count) {
    const out = [];
    await seq.clearHistory();
    for await (const token of seq.evaluate(tokens, { temperature: 0, yieldEogToken: true })) {
        out.push(token);
        if (out.length >= count) break;
    }
    return out;
}

class Engine {
    #llama; #model; #modelPath; #context; #adapter; #seq;

    async #start() {
        const { getLlama, LlamaLogLevel } = await import("node-llama-cpp");
        this.#llama = await getLlama({
            gpu: false, build: "never", skipDownload: true, progressLogs: false,
            maxThreads: THREADS, numa: false, logLevel: LlamaLogLevel.error,
            logger: (level, message) => this.notes.push(message.trim())
        });
    }

    notes = []; /* what the engine itself said about the job: it knows best */

    async #close(all) {
        const context = this.#context, model = this.#model;
        this.#context = undefined;
        await context?.dispose();
        if (!all) return;
        this.#model = this.#modelPath = undefined;
        await model?.dispose();
    }

    /* Jobs on the same model in a row load it once. An adapter belongs to the context. */
    async #open(model, adapter) {
        if (!this.#llama) await this.#start();
        if (model !== this.#modelPath) {
            await this.#close(true);
            this.#model = await this.#llama.loadModel({ modelPath: model, gpuLayers: 0 });
            this.#modelPath = model;
        }
        if (!this.#context || adapter !== this.#adapter) {
            await this.#close(false);
            const options = { contextSize: CONTEXT, batchSize: CONTEXT, sequences: 1,
                threads: { ideal: THREADS, min: THREADS }, flashAttention: false };
            if (adapter) options.lora = adapter;
            this.#context = await this.#model.createContext(options);
            this.#adapter = adapter;
            this.#seq = this.#context.getSequence();
        }
    }

    async run({ op, model, text, count, adapter }) {
        this.notes = [];
        await this.#open(model, adapter);
        if (op === "ppl") {
            const tokens = this.#model.tokenize(readFileSync(text, "utf8"));
            const { value, scored } = await perplexity(this.#seq, tokens);
            return [value, scored];
        }
        const bos = this.#model.tokens.bos;
        const prompt = this.#model.tokenize(text);
        if (this.#model.tokens.shouldPrependBosToken && bos != null) prompt.unshift(bos);
        const out = await greedy(this.#seq, prompt, count);
        return [out.join(" "), out.length, JSON.stringify(this.#model.detokenize(out))];
    }

    async drop() {
        try { await this.#close(true); } catch { /* the job has failed already */ }
    }
}

function serve() {
    const engine = new Engine();
    process.on("message", async (job) => {
        let answer;
        try {
            answer = { result: await engine.run(job) };
        } catch (err) {
            await engine.drop();
            await setTimeout(LOG_WAIT_MS);
            const why = [err?.message ?? err, ...engine.notes].join(": ");
            answer = { error: why };
        }
        process.send(answer);
    });
    process.on("disconnect", () => process.exit(0));
}

/* ==== Parent: the jobs ==== */

class Worker {
    #child;

    run(job) {
        if (!this.#child?.connected) {
            this.#child = fork(new URL(import.meta.url), ["--serve"], {
                env: { ...process.env, NODE_LLAMA_CPP_SKIP_DOWNLOAD: "true" },
                stdio: ["ignore", "ignore", "inherit", "ipc"]
            });
        }
        const child = this.#child;
        return new Promise((resolve) => {
            const done = (answer) => {
                child.removeAllListeners();
                resolve(answer);
            };
            child.once("message", done);
            child.once("error", (err) => done({ error: err.message }));
            child.once("exit", (code, signal) => {
                done({ error: `the engine died (${signal ?? `exit ${code}`})` });
            });
            child.send(job);
        });
    }

    stop() {
        if (this.#child?.connected) this.#child.disconnect();
    }
}

function parseJob(line) {
    const [op, model, text, count, adapter] = line.split("\t");
    if ((op !== "ppl" && op !== "gen") || !model || !text) throw new Error("not a job");
    const n = count === undefined || count === "" ? 16 : Number(count);
    if (!Number.isInteger(n) || n < 1 || n >= CONTEXT) throw new Error("count is out of range");
    return { op, model, text, count: n, adapter: adapter || "" };
}

async function* lines(command, args) {
    if (command === "batch")
        yield* createInterface({ input: process.stdin });
    else if (command === "ppl")
        yield* args.slice(1).map((text) => ["ppl", args[0], text].join("\t"));
    else
        yield ["gen", args[0], args[1].replace(/\t/g, " "), args[2]].join("\t");
}

async function main([command, ...args]) {
    const enough = { ppl: args.length >= 2, gen: args.length === 3, batch: args.length === 0 };
    if (!enough[command]) {
        console.error("usage: engine.mjs ppl MODEL TEXT... | gen MODEL PROMPT N | batch");
        return 2;
    }
    const worker = new Worker();
    let status = 0;
    for await (const line of lines(command, args)) {
        if (line === "" || line.startsWith("#")) continue;
        let job, answer;
        try {
            job = parseJob(line);
            answer = await worker.run(job);
        } catch (err) {
            answer = { error: err.message };
        }
        const model = job ? job.model + (job.adapter && `+${job.adapter}`) : oneLine(line);
        const result = answer.error === undefined ? answer.result : ["error", oneLine(answer.error)];
        console.log([model, oneLine(job?.text ?? ""), ...result].join("\t"));
        if (answer.error !== undefined) status = 1;
    }
    worker.stop();
    return status;
}

if (process.argv[2] === "--serve" && process.send) serve();
else process.exitCode = await main(process.argv.slice(2));
