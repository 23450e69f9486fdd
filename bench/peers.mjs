// Prefill and decode of llama.cpp, as the npm package node-llama-cpp carries it, for bench/peers.
// Usage: node peers.mjs FILE.gguf PROMPT DECODE THREADS, in a folder with the package installed.
import { getLlama } from "node-llama-cpp";

const [file, prompt, decode, threads] = [process.argv[2], ...process.argv.slice(3).map(Number)];
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });
const model = await llama.loadModel({ modelPath: file });
const context = await model.createContext({
  contextSize: prompt + decode + 64, batchSize: 512, threads, sequences: 1 });
const sequence = context.getSequence();
const options = { temperature: 0, yieldEogToken: true };

/// Seconds until `count` tokens are generated after the given ones.
async function seconds(tokens, count) {
  await sequence.clearHistory();
  const begin = performance.now();
  for await (const _ of sequence.evaluate(tokens, options)) if (--count <= 0) break;
  return (performance.now() - begin) / 1000;
}

const ids = Array.from({ length: prompt }, (_, i) => 3 + (i * 7919) % 900);
await seconds([300], 2);  // warm
const prefill = prompt > 0 ? prompt / await seconds(ids, 1) : 0;
const rate = decode > 0 ? decode / await seconds([300], decode) : 0;
console.log(JSON.stringify({ prefill_tok_s: prefill, decode_tok_s: rate }));
process.exit(0);
