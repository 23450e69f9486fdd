#include "ops/cli/verbs.h"

#include "ops/cli/run.h"
#include "ops/cli/serve.h"
#include "ops/cli/verb_functions.h"

namespace holdfast::cli {
namespace {

using enum Kind;

const Argument kName = {"NAME", kText, "model name", false};
const Argument kFile = {"FILE", kText, "a GGUF file", false};
const Argument kId = {"ID", kText, "request id", false};

const Argument kKnob = {"NAME", kText, "as config list shows it", false};
const Argument kKey = {"KEY", kText, "worker key, as workers list shows it", false};
const Argument kCopy = {"FILE", kText, "the copy's file", false};

const Verb kServe = {
    "serve",
    "run daemon, workers and HTTP gateway on this machine until SIGTERM",
    {{"--model", kList, "NAME=PATH of a GGUF file to register and load; may be repeated"},
     {"--http", kText,
      "HOST:PORT of the HTTP door (default 127.0.0.1:8080; port 0 picks one; none)"},
     {"--workers", kInteger, "worker processes (default 1)"},
     {"--threads", kInteger, "compute threads of a worker (default: the cores, shared out)"},
     {"--device", kText, "cpu or opencl:N (default cpu)"},
     {"--context", kInteger, "tokens of a sequence at most (default: the model's, up to 4096)"},
     {"--kv-type", kText, "type of the KV cache (default f16)"},
     {"--engine", kText, "model, or fake for tests of everything around the engine"},
     {"--engine-options", kText, "JSON for the fake engine"},
     {"--kernels", kText, "force a kernel family: scalar, avx2, avx512, amx"},
     {"--config", kList, "NAME=VALUE of a knob (see config list); may be repeated"},
     {"--config-file", kText, "file with NAME = VALUE lines (default STATE/holdfast.conf)"},
     {"--step-watchdog-ms", kInteger,
      "a worker whose step shows no progress for so long is stuck and ends (default 10000)"},
     {"--ingress", kInteger, "helper processes that read prompts and files (default 2)"},
     {"--restart-max-ms", kInteger, "longest pause before a dead child's restart (default 1000)"},
     {"--verbose", kSwitch, "the children's logs on stderr, not in STATE/logs"},
     {"--quiet", kSwitch, "say nothing but errors and the ready line"}},
    &serve};

const Verb kRun = {
    "run",
    "one prompt; its text is streamed to stdout",
    {{"MODEL", kText, "name of a model, or a GGUF file", false},
     {"PROMPT", kText, "the prompt", false},
     {"--max-tokens", kInteger, "tokens to generate at most (default: what the context leaves)"},
     {"--temperature", kReal, "0 is greedy (default 1)"},
     {"--seed", kInteger, "fixes the random numbers (default: drawn and stored)"},
     {"--stop", kList, "end before this text; may be repeated"},
     {"--raw", kSwitch, "the prompt as it is"},
     {"--chat", kSwitch, "the prompt as a user's message (default if the model has a template)"}},
    &run_prompt};

const Verb kModelsAdd = {"models add",
                         "register a GGUF file under a name",
                         {kName,
                          {"PATH", kText, "the file", false},
                          {"--context", kInteger, "tokens of a sequence at most"},
                          {"--slots", kInteger, "sequences at once"},
                          {"--kv-type", kText, "type of the KV cache"},
                          {"--options", kText, "JSON for the fake engine"},
                          {"--load", kSwitch, "load it now and wait until it is ready"}},
                         &models_add};

const Verb kInspect = {"inspect",
                       "a model file's header, tensors and memory envelope",
                       {kFile,
                        {"--context", kInteger, "tokens of a sequence at most"},
                        {"--streams", kInteger, "sequences at once"}},
                       &inspect};

const Verb kTokenize = {"tokenize",
                        "text to token ids, by the file's tokenizer",
                        {kFile,
                         {"TEXT", kText, "the text"},
                         {"--input", kText, "a text file, or the text"},
                         {"--no-bos", kSwitch, "neither BOS nor EOS, whatever the file says"},
                         {"--no-special", kSwitch, "names of control tokens are plain text"}},
                        &tokenize};

const Verb kDetokenize = {"detokenize",
                          "token ids to text",
                          {kFile,
                           {"IDS", kList, "1,2,3 or 1 2 3"},
                           {"--input", kText, "a file with ids"},
                           {"--no-special", kSwitch, "leave control tokens out"}},
                          &detokenize};

const Verb kRender = {
    "render",
    "what a chat template makes of messages, byte for byte",
    {{"TEMPLATE", kText, "a Jinja file, or a GGUF file with a template", false},
     {"--input", kText, "CASE.json: messages, tools, add_generation_prompt, bos_token, …"}},
    &render_chat};

const Verb kSynth = {"synth",
                     "write a model with random weights in a known shape; `synth list` names them",
                     {{"SHAPE", kText, "shape, or list", false},
                      {"OUT", kText, "the file to write"},
                      {"--type", kText, "type of the weights (default q8_0)"},
                      {"--seed", kInteger, "of the random numbers (default 1)"}},
                     &synth_model};

const Argument kThreads = {"-t,--threads", kInteger, "compute threads (default: the cores)"};
const Argument kDevice = {"--device", kText, "cpu or opencl:N (default cpu)"};
const Argument kKernels = {"--kernels", kText, "force a kernel family: scalar, avx2, avx512, amx"};
const Argument kKvType = {"--kv-type", kText, "type of the KV cache (default f16)"};

const Verb kLogits = {"logits",
                      "logits of a token sequence, computed by the serving engine",
                      {kFile,
                       {"--tokens", kText, "1,2,3 or @FILE"},
                       {"--positions", kText, "0,5 or all (default all)"},
                       {"--chunk", kInteger, "tokens of prefill a step (default 512)"},
                       {"--batch", kInteger, "other random sequences that run beside it"},
                       {"--decode", kSwitch, "one token at a time"},
                       kThreads,
                       kDevice,
                       kKernels,
                       kKvType},
                      &logits};

const Verb kPerplexity = {
    "perplexity",
    "perplexity of a text, with its standard error",
    {kFile,
     {"--text", kText, "the text's file"},
     {"--window", kInteger, "tokens of a window (default 256); windows do not overlap"},
     {"--all-positions", kSwitch, "score whole windows, not their second halves alone"},
     kThreads,
     kDevice,
     kKernels,
     kKvType},
    &perplexity};

const Verb kBench = {"bench",
                     "tokens a second of prefill and decode",
                     {kFile,
                      {"-p,--prompt-tokens", kInteger, "tokens of prefill (default 512; 0: none)"},
                      {"-n,--decode-tokens", kInteger, "tokens to decode (default 64; 0: none)"},
                      {"-b,--streams", kInteger, "sequences at once (default 1)"},
                      kThreads,
                      kDevice,
                      kKernels,
                      kKvType},
                     &bench};

const std::vector<Verb>& config_and_database_verbs() {
  static const std::vector<Verb> table = {
      {"config list", "every knob, its value and where that comes from", {}, &config_list},
      {"config get", "one knob's value", {kKnob}, &config_get},
      {"config set",
       "give knobs values; in effect at once where no restart is needed",
       {{"NAME=VALUE", kList, "one or more", false}},
       &config_set},
      {"config unset",
       "knobs back to their defaults",
       {{"NAMES", kList, "one or more", false}},
       &config_unset},
      {"config explain",
       "a knob's value, who set it where and when, and what it does",
       {kKnob},
       &config_explain},
      {"config history",
       "the versions of the configuration",
       {{"--limit", kInteger, "rows at most (default 50)"}},
       &config_history},
      {"config diff",
       "what changed between two versions",
       {{"FROM", kInteger, "version (default: the one before)"},
        {"TO", kInteger, "version (default: the newest)"}},
       &config_diff},
      {"config rollback",
       "the settings of an older version, as a new one",
       {{"VERSION", kInteger, "as config history shows it; 0 is the defaults", false}},
       &config_rollback},
      {"db check",
       "read the whole database (while a daemon runs: a copy of it), with every checksum",
       {{"FILE", kText, "a backup to check instead"}},
       &db_check},
      {"db backup", "a complete copy, also while the daemon works", {kCopy}, &db_backup},
      {"db restore",
       "put a backup in the database's place; no daemon may run",
       {kCopy},
       &db_restore},
      {"db stats", "sizes and rows of the database", {}, &db_stats},
  };
  return table;
}

const std::vector<Verb>& request_verbs() {
  static const std::vector<Verb> table = {
      {"requests list",
       "the latest requests",
       {{"--limit", kInteger, "rows at most"}, {"--with-state", kText, "only this state"}},
       &requests_list},
      {"requests show", "one request with its choices and attempts", {kId}, &requests_show},
      {"requests cancel", "end a request", {kId}, &requests_cancel},
      {"requests requeue",
       "out of quarantine, or off its worker and into the queue again",
       {kId},
       &requests_requeue},
      {"requests move",
       "another priority class",
       {kId, {"--priority", kText, "interactive, normal or batch", false}},
       &requests_move},
      {"requests tail",
       "its text from the first token on, then as it comes",
       {kId},
       &requests_tail},
      {"queue stats", "what waits and what runs", {}, &queue_stats},
      {"queue pause", "accept, but start nothing new", {}, &queue_pause},
      {"queue resume", "start work again", {}, &queue_resume},
  };
  return table;
}

std::vector<Verb> make_table() {
  std::vector<Verb> table = {
      kServe,
      kRun,
      {"status", "daemon, workers, memory, queue", {}, &status},
      {"models list", "every model and its state", {}, &models_list},
      {"models show", "one model in full", {kName}, &models_show},
      kModelsAdd,
      {"models remove", "forget a model", {kName}, &models_remove},
      {"models load",
       "load a model and wait until it is ready",
       {kName, {"--no-wait", kSwitch, "return at once"}},
       &models_load},
      {"models unload", "free a model's memory", {kName}, &models_unload},
      {"models pin", "never unload a model to make room for another", {kName}, &models_pin},
      {"models unpin", "let it make room again", {kName}, &models_unpin},
      {"workers list", "every worker, its device and load", {}, &workers_list},
      {"workers drain",
       "let a worker finish what it runs and give it nothing new",
       {kKey},
       &workers_drain},
      {"workers resume",
       "give a drained or quarantined worker work again",
       {kKey},
       &workers_resume},
      kInspect,
      kTokenize,
      kDetokenize,
      kRender,
      kLogits,
      kPerplexity,
      kBench,
      kSynth,
  };
  table.insert(table.end(), request_verbs().begin(), request_verbs().end());
  const std::vector<Verb>& more = config_and_database_verbs();
  table.insert(table.end(), more.begin(), more.end());
  return table;
}

}  // namespace

const std::vector<Verb>& verb_table() {
  static const std::vector<Verb> table = make_table();
  return table;
}

const char* group_help(const std::string& group) {
  if (group == "models") return "models: list, show, add, remove, load, unload";
  if (group == "workers") return "workers: list, drain, resume";
  if (group == "requests") return "requests: list, show, cancel, requeue, move, tail";
  if (group == "queue") return "queue: stats, pause, resume";
  if (group == "db") return "the database: check, backup, restore, stats";
  if (group == "config")
    return "configuration: list, get, set, unset, explain, history, diff, rollback";
  return "";
}

}  // namespace holdfast::cli
