// Texts of help and manual pages beyond a verb's row in the table: examples, and more words where
// one line is not enough.

#include <map>

#include "ops/cli/verbs.h"

namespace holdfast::cli {
namespace {

using Examples = std::map<std::string, std::vector<Example>>;

const Examples& cluster_examples() {
  static const Examples examples = {
      {"node",
       {{"holdfast node --join tcp://10.0.0.1:7070 --key gpu-1.key --root /srv/models", ""}}},
      {"gateway",
       {{"holdfast gateway --join tcp://10.0.0.1:7070 --key front.key --http 0.0.0.0:8080", ""}}},
      {"nodes list", {{"holdfast nodes list", "name, state, workers, last sign of life"}}},
      {"nodes show", {{"holdfast nodes show gpu-1", ""}}},
      {"nodes drain", {{"holdfast nodes drain gpu-1", "before it is taken away"}}},
      {"nodes resume", {{"holdfast nodes resume gpu-1", ""}}},
      {"keys node-create",
       {{"holdfast keys node create gpu-1 --out gpu-1.key",
         "for `holdfast node` on that machine"}}},
      {"keys node-revoke", {{"holdfast keys node revoke gpu-1", "its workers are lost at once"}}},
      {"keys gateway-create",
       {{"holdfast keys gateway create front --out front.key",
         "for `holdfast gateway` on that machine"}}},
      {"keys gateway-revoke", {{"holdfast keys gateway revoke front", "it ends within a second"}}},
      {"keys client-create",
       {{"holdfast keys client create shop --out shop.key", "a program with the SDK elsewhere"},
        {"holdfast keys client create boss --role operator --out boss.key", ""}}},
      {"keys client-revoke", {{"holdfast keys client revoke shop", ""}}},
      {"keys peers", {{"holdfast keys peers", "whose are valid, revoked, expired"}}},
  };
  return examples;
}

const Examples& serving_examples() {
  static const Examples examples = {
      {"serve",
       {{"holdfast serve --model chat=qwen2.5-0.5b-q8_0.gguf",
         "one model on the processor, HTTP on 127.0.0.1:8080"},
        {"holdfast --state /var/lib/holdfast serve --http 0.0.0.0:8080 --workers 2 --quiet",
         "as a service, with the models that were loaded before"}}},
      {"run",
       {{"holdfast run chat \"Why is the sky blue?\" --max-tokens 100", "a served model"},
        {"holdfast run ./model.gguf \"Once upon a time\" --raw --seed 1",
         "a file; without a daemon one is started for the time"},
        {"holdfast run ./model.gguf --device opencl:0", "a chat on a device, without a daemon"}}},
      {"chat",
       {{"holdfast chat qwen", "go on where the last chat with this model was"},
        {"holdfast chat qwen --session trip --system \"You plan journeys.\"", "a chat of its own"},
        {"printf 'Hello\\nAnd why?\\n' | holdfast --json chat qwen --new",
         "two questions of a script, a document for each answer"}}},
      {"chats list", {{"holdfast chats list", "model, turns, last question of each"}}},
      {"chats show",
       {{"holdfast chats show trip", "what was said, as Markdown"},
        {"holdfast --json chats show trip", "for programs"}}},
      {"chats remove", {{"holdfast chats remove trip", ""}}},
      {"status",
       {{"holdfast status", "one screen"},
        {"holdfast status --watch 1", "again every second"},
        {"holdfast --json status | jq '.problems'", "for scripts"}}},
      {"doctor",
       {{"holdfast doctor", "before the first start, and when something is odd"},
        {"holdfast --json doctor | jq '.checks[] | select(.level != \"ok\")'", "for scripts"}}},
      {"completion",
       {{"source <(holdfast completion bash)", "in this shell; put it into ~/.bashrc to keep it"},
        {"holdfast completion zsh > ~/.zfunc/_holdfast", "for a folder in zsh's fpath"}}},
      {"man",
       {{"holdfast man | man -l -", "holdfast(1)"},
        {"holdfast man models add > holdfast-models-add.1", "a file to install"}}},
      {"help", {{"holdfast help models add", "the same as holdfast models add --help"}}},
      {"version", {{"holdfast version", "the same as holdfast --version"}}},
      {"complete", {{"holdfast complete models", "names of models, a line each"}}},
      {"workers list", {{"holdfast workers list", "state, device, load of each"}}},
      {"workers drain", {{"holdfast workers drain worker-0", "before its machine is taken away"}}},
      {"workers resume", {{"holdfast workers resume worker-0", "after a drain or a repair"}}},
      {"queue stats", {{"holdfast queue stats", "what waits and what runs"}}},
      {"queue pause", {{"holdfast queue pause", "before an upgrade: what runs goes on"}}},
      {"queue resume", {{"holdfast queue resume", ""}}},
      {"keys create",
       {{"holdfast keys create laptop", "a client's key"},
        {"holdfast keys create ops --role operator --expires 90", ""},
        {"holdfast keys create shop --tenant shop", "with the limits of tenant.shop.*"},
        {"holdfast keys create desk --priority interactive", "may go before ordinary work"},
        {"holdfast keys create trial --max-requests 2 --requests-per-minute 30", ""}}},
      {"keys list", {{"holdfast keys list", ""}}},
      {"keys update",
       {{"holdfast keys update key_01m7… --requests-per-minute 60", ""},
        {"holdfast keys update key_01m7… --max-requests 0", "takes the limit away"}}},
      {"keys revoke", {{"holdfast keys revoke key_01m7…", ""}}},
      {"webhooks create",
       {{"holdfast webhooks create https://example.com/hooks --tenant shop", ""},
        {"holdfast webhooks create http://127.0.0.1:9000/ --private --events batch.completed",
         ""}}},
      {"webhooks list", {{"holdfast webhooks list", ""}}},
      {"webhooks delete", {{"holdfast webhooks delete wh_01m7…", ""}}},
      {"webhooks secret", {{"holdfast webhooks secret wh_01m7…", "rotate it"}}},
      {"webhooks deliveries", {{"holdfast webhooks deliveries", ""}}},
      {"webhooks retry", {{"holdfast webhooks retry msg_8a1f…", ""}}},
  };
  return examples;
}

const Examples& model_examples() {
  static const Examples examples = {
      {"pull",
       {{"holdfast pull hf.co/HuggingFaceTB/SmolLM2-135M-Instruct-GGUF:Q8_0 --load",
         "from the Hugging Face hub"},
        {"holdfast pull ollama://llama3.2:1b --as small", "from a registry, under another name"},
        {"holdfast pull https://example.com/m.gguf#sha256=9f86… --limit-rate 10",
         "a file whose hash is known, 10 MiB a second"}}},
      {"jobs list", {{"holdfast jobs list", "what is under way, and how it ended"}}},
      {"jobs show", {{"holdfast --json jobs show small", "files, bytes, the last error"}}},
      {"jobs cancel", {{"holdfast jobs cancel small", ""}}},
      {"jobs tail", {{"holdfast jobs tail small", "progress until the end"}}},
      {"models list", {{"holdfast models list", "every model and its state"}}},
      {"models found",
       {{"holdfast models found", "caches of Hugging Face's libraries, Ollama, LM Studio"}}},
      {"models show", {{"holdfast models show chat", "where it is loaded, memory, reason"}}},
      {"models add",
       {{"holdfast models add chat qwen2.5-0.5b-q8_0.gguf --load", "register, load, wait"},
        {"holdfast models add llama ollama:llama3.2", "one of another program, where it lies"},
        {"holdfast models add pirate model.gguf --system \"Talk like a pirate.\" --parameter "
         "temperature=0.2",
         "what the name adds to the file"},
        {"holdfast models add big /models/70b.gguf --context 8192 --slots 4 --kv-type int8",
         "with less memory for the KV cache"}}},
      {"models alias",
       {{"holdfast models alias", "every alias and what it stands for"},
        {"holdfast models alias chat --to qwen-2 --when-ready", "swap once the new model is ready"},
        {"holdfast models alias chat --canary qwen-3=5",
         "a twentieth of new requests, taken back by itself if it does worse"},
        {"holdfast models alias chat --history", "each decision with its numbers"}}},
      {"models remove", {{"holdfast models remove chat", "the file stays"}}},
      {"models load", {{"holdfast models load chat", "also after a failed load"}}},
      {"models unload", {{"holdfast models unload chat", "running work ends first"}}},
      {"models pin", {{"holdfast models pin chat", "it stays whatever else is asked for"}}},
      {"models unpin", {{"holdfast models unpin chat", ""}}},
      {"models verify", {{"holdfast models verify chat", "while it serves"}}},
      {"requests list",
       {{"holdfast requests list --with-state failed --limit 20", "the newest failures"}}},
      {"requests show", {{"holdfast requests show 01j8…", "every attempt, its worker and reason"}}},
      {"requests cancel", {{"holdfast requests cancel 01j8…", ""}}},
      {"requests requeue", {{"holdfast requests requeue 01j8…", "out of quarantine"}}},
      {"requests move",
       {{"holdfast requests move 01j8… --priority interactive", "ahead of normal work"}}},
      {"requests tail", {{"holdfast requests tail 01j8…", "its text as it comes"}}},
  };
  return examples;
}

const Examples& setting_examples() {
  static const Examples examples = {
      {"config list", {{"holdfast config list", "every knob"}}},
      {"config get", {{"holdfast config get queue.max_requests", ""}}},
      {"config set",
       {{"holdfast config set queue.max_requests=5000 tenant.alice.weight=3",
         "one version with both"}}},
      {"config unset", {{"holdfast config unset queue.max_requests", "back to its default"}}},
      {"config explain",
       {{"holdfast config explain queue.max_requests", "who set it, where, when"}}},
      {"config history", {{"holdfast config history --limit 5", "the newest versions"}}},
      {"config diff",
       {{"holdfast config diff", "the last change"},
        {"holdfast config diff 3 7", "between two versions"}}},
      {"config rollback", {{"holdfast config rollback 3", "the settings of version 3 again"}}},
      {"db check",
       {{"holdfast db check", "every row and checksum"},
        {"holdfast db check --repair", "after an upgrade: checksums for old rows too"}}},
      {"db accept-loss",
       {{"holdfast db accept-loss", "what status says of a lost log has been dealt with"}}},
      {"db backup",
       {{"holdfast db backup /backup/holdfast-$(date +%F).db", "while everything runs"},
        {"HOLDFAST_KEY_FILE=op.key holdfast --url tcp://10.0.0.1:7070 db backup holdfast.db",
         "of a server elsewhere, to a file here"},
        {"holdfast db backup - | zstd > holdfast.db.zst", "through a pipe"}}},
      {"db restore", {{"holdfast db restore /backup/holdfast-2026-03-01.db", "no daemon may run"}}},
      {"db stats", {{"holdfast db stats", "sizes and rows"}}},
      {"ha status",
       {{"holdfast ha status", "on either machine"},
        {"holdfast ha status --check", "for a probe: fails while a standby is not in step"}}},
      {"ha switch", {{"holdfast ha switch", "before work on this machine; takes a moment"}}},
      {"ha promote",
       {{"holdfast ha promote", "on the standby, when the primary's machine is lost"},
        {"holdfast ha promote --force", "also if it went on without the standby"}}},
  };
  return examples;
}

const Examples& tool_examples() {
  static const Examples examples = {
      {"inspect",
       {{"holdfast inspect model.gguf --context 8192 --streams 16",
         "what it would take in memory"}}},
      {"tokenize",
       {{"holdfast tokenize model.gguf \"Hello world\"", ""},
        {"holdfast --json tokenize model.gguf --input text.txt --no-bos", "a file, as JSON"}}},
      {"detokenize", {{"holdfast detokenize model.gguf 9906,1917", ""}}},
      {"render",
       {{"holdfast render model.gguf --input case.json", "what the model would be shown"}}},
      {"logits",
       {{"holdfast --json logits model.gguf --tokens 1,2,3 --positions all", "for comparisons"}}},
      {"embed", {{"holdfast embed bge-small.gguf \"one text\" \"another\"", "two vectors"}}},
      {"perplexity", {{"holdfast perplexity model.gguf --text wiki.txt --window 512", ""}}},
      {"bench",
       {{"holdfast bench model.gguf -p 512 -n 64 -b 8", "eight streams at once"},
        {"holdfast bench model.gguf -p 0 -c 4096 -r 5", "decoding behind 4,096 tokens, 5 times"}}},
      {"bench-compare",
       {{"holdfast bench-compare old.json new.json", "of `holdfast --json bench … -r 5` each"}}},
      {"synth",
       {{"holdfast synth list", "known shapes"},
        {"holdfast synth qwen2.5-0.5b /tmp/test.gguf --type q4_k_m", "random weights"},
        {"holdfast synth --arch gemma2 /tmp/tiny.gguf --seed 3", "a tiny model of a family"}}},
      {"convert",
       {{"holdfast convert ./Qwen2.5-0.5B-Instruct qwen.gguf", "a folder as it was downloaded"},
        {"holdfast convert model.gguf ./model-folder", "for other libraries"}}},
      {"migrate from",
       {{"holdfast migrate from llama-server -- -m model.gguf -c 8192 -ngl 99 --port 9000", ""},
        {"holdfast migrate from ollama --env OLLAMA_KEEP_ALIVE=1h", "with a variable of its unit"},
        {"holdfast --json migrate from vllm -- vllm serve ./qwen --max-num-seqs 8",
         "for scripts"}}},
      {"quantize",
       {{"holdfast quantize model-f16.gguf model-q4_k_m.gguf q4_k_m",
         "a third of the size; holdfast perplexity shows what it costs"}}},
  };
  return examples;
}

}  // namespace

const std::vector<Example>& examples_of(const std::string& path) {
  static const std::vector<Example> none;
  for (const Examples* part : {&serving_examples(), &cluster_examples(), &model_examples(),
                               &setting_examples(), &tool_examples()}) {
    const auto it = part->find(path);
    if (it != part->end()) return it->second;
  }
  return none;
}

constexpr const char* kBackupText =
    "The copy is checked after it was made. Existing files are not overwritten.\n\n"
    "With --url tcp://HOST:PORT, or HOLDFAST_URL, and an operator's key in HOLDFAST_KEY_FILE the "
    "copy of a server elsewhere comes to a file of this machine. It grows as FILE.part, and has "
    "its "
    "name once its hash is right and the check is passed. A cut link is waited for, for ten "
    "minutes. The file has all secrets of the server.";

const char* description_of(const std::string& path) {
  static const std::map<std::string, const char*> texts = {
      {"serve",
       "Starts the daemon, ingress helpers, workers and the gateway from the folder of this "
       "program, and starts each of them again when it ends. Prints one line `ready URL` when "
       "every --model is ready.\n\n"
       "SIGTERM or SIGINT lets running work finish for drain.limit_ms (10 s); what is left stays "
       "in the database and goes on at the next start. A second signal ends at once, and loses "
       "nothing either."},
      {"bench-compare",
       "Also as `holdfast bench compare OLD NEW`. Figure by figure: new / old with the middle 95 % "
       "of what the ratio of the medians is when the samples are drawn again. A regression is a "
       "figure that is worse by more than --threshold with all of that interval on the bad side; "
       "it takes three samples on each side to judge. Only records of one machine and one mode "
       "say something. Exit status: 0 none became worse, 1 a regression, 2 no such record."},
      {"run",
       "The text goes to stdout as it is generated. Ctrl-C cancels the request. With --json: one "
       "document with ids, text and the reason of the end.\n\n"
       "Without a prompt, on a terminal, it is `holdfast chat MODEL`."},
      {"chat",
       "Each question is in the database before the model has it, each answer once it has ended. "
       "Whatever dies meanwhile, this program included, a chat that is opened again finishes the "
       "answer that was under way, and goes on. Without --session that is the last chat with this "
       "model. Sampling flags hold for the chat until others are given; with --seed S the N-th "
       "question has the seed S + N - 1.\n\n"
       "/help lists the commands. A line that ends in \\ goes on in the next, \"\"\" begins and "
       "ends a text of several lines. Ctrl-C stops an answer: what came stays. Ctrl-C at the "
       "prompt, /exit and the end of input leave.\n\n"
       "Where stdin or stdout is no terminal there is no prompt, each line is a question, an empty "
       "line separates the answers, thinking is left out, and the first failure ends the chat with "
       "its exit code. With --json: a document on a line for each turn."},
      {"migrate from",
       "Prints commands, then as comments what differs and what could not be mapped. Variables of "
       "the other server are read from the environment; --env outranks that, flags outrank both. "
       "Exits with 1 if something could not be mapped."},
      {"status",
       "Problems come first, each with what to do about it. Times are those of this daemon "
       "process: waiting in the queue from acceptance to the first dispatch; the first token from "
       "the arrival of the submission; a pause between two tokens also when a worker died in it. "
       "Rates are those of the last minute.\n\n"
       "--watch redraws on a terminal and writes blocks, separated by a line of dashes, elsewhere. "
       "It goes on while the daemon is away, and ends with 0 at SIGINT or SIGTERM."},
      {"doctor",
       "One line a check: ok, warn or fail, what was found, what was expected, what to do. Works "
       "with and without a daemon and changes nothing; it writes and removes one small file to "
       "measure synced writes. Exits 0 when nothing failed."},
      {"completion",
       "The script knows verbs, options and their values; names of models, requests, workers and "
       "knobs are read from the state directory when they are asked for."},
      {"models add",
       "The file's header is read and its content hashed, once, by a helper with limits. It is "
       "not copied: it must stay where it is, unchanged.\n\n"
       "--template, --system and --parameter are what this name adds to the file; other names of "
       "the file have their own. Requests that set a parameter or have a system message keep "
       "theirs. A further `models add` with any of the three replaces all, one without none."},
      {"models verify",
       "Hashes the file once more, computes the envelope from its header, runs one greedy "
       "generation of 16 tokens through the ordinary queue (which loads the model), and compares "
       "the measured memory with the reservation.\n\n"
       "The first answer in each numerics class is kept with the content's hash; a later one must "
       "be the same, token for token. A difference means that memory, processor or kernels are not "
       "what they were: requests that are continued on this worker would change their text."},
      {"db backup", kBackupText},
      {"config set",
       "All assignments of one call are one version: all are taken over or none. Knobs that need "
       "a restart say so; `config explain` shows both values until then."},
  };
  const auto it = texts.find(path);
  return it == texts.end() ? "" : it->second;
}

}  // namespace holdfast::cli
