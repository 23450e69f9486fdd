#include "ops/cli/verbs.h"

#include <algorithm>

#include "ops/cli/db_verbs.h"
#include "ops/cli/run.h"
#include "ops/cli/submit_flags.h"
#include "ops/cli/verb_functions.h"
#include "ops/gateway/gateway.h"
#include "ops/node/node.h"
#include "ops/serve/serve.h"

namespace holdfast::cli {
namespace {

using enum Kind;
using enum Source;

constexpr const char* kKvTypes = "f32 f16 bf16 int8 fp8";
constexpr const char* kFamilies =
    "scalar avx2 avxvnni avx512 avx512bf16 avx512+avx512bf16 amx avx512+amx amx-emulated "
    "avx512+amx-emulated avx512bf16-emulated avx512+avx512bf16-emulated t0 t1 t2 t3 clblast";
constexpr const char* kKernelsHelp =
    "force a kernel family: scalar, avx2, avxvnni, avx512, avx512bf16, avx512+avx512bf16, amx, "
    "avx512+amx; on a device a tier: t0 to t3, or clblast for vectors alone";
constexpr const char* kDeviceHelp =
    "cpu (default), opencl:N, opencl:N+M (layers over several devices), opencl:N,M (the rows of "
    "every matrix), opencl:N+cpu (the layers that fit, the others on the processor)";
constexpr const char* kPriorities = "interactive normal batch";
constexpr const char* kStates = "queued running succeeded failed cancelled expired quarantined";

const Argument kName = {"NAME", kText, "model name", false, kModel};
const Argument kGguf = {"FILE", kText, "a GGUF file", false, kFile};
const Argument kId = {"ID", kText, "request id, or its idempotency key", false, kRequest};
const Argument kKeyId = {"ID", kText, "of keys list: an id, or a name that one key has", false,
                         kKey};
const Argument kNodeName = {"NAME", kText, "as nodes list shows it", false};
const Argument kPeerName = {"NAME", kText, "1 to 63 of a-z, 0-9, . and -", false};
const Argument kKeyOut = {"--out", kText, "the key file, which must not be there yet", false,
                          kFile};
const Argument kKeyExpires = {"--expires", kInteger, "in so many days (default: never)"};
const Argument kWebhookId = {"ID", kText, "of webhooks list: an id, or a URL that one has", false,
                             kWebhook};

const Argument kChatName = {"NAME", kText, "as chats list shows it", false, kChat};
const Argument kFileDevice = {
    "--device", kText,    "of a file that no daemon serves: the device to run it on",
    true,       kNothing, "cpu opencl:0"};

const Argument kKnobName = {"NAME", kText, "as config list shows it", false, kKnob};
const Argument kWorkerKey = {"KEY", kText, "worker key, as workers list shows it", false, kWorker};
const Argument kCopy = {"FILE", kText, "the copy's file", false, kFile};

const Verb kServe = {
    "serve",
    "run daemon, workers and HTTP gateway on this machine until SIGTERM",
    {{"--model", kList, "NAME=PATH of a GGUF file to register and load; may be repeated", true,
      kNamedFile},
     {"--http", kList,
      "HOST:PORT of HTTP (default 127.0.0.1:8080; *:PORT is every address, port 0 picks a "
      "free one; none); may be repeated"},
     {"--tls-cert", kText, "HTTPS instead of HTTP: the certificate chain, PEM", true, kFile},
     {"--tls-key", kText, "its key, PEM without a passphrase", true, kFile},
     {"--cors-origin", kList,
      "a web page's origin (https://app.example, or *) that may read answers; may be repeated"},
     {"--listen", kText,
      "tcp://HOST:PORT for nodes and clients on other machines, which need keys (keys node "
      "create)"},
     {"--advertise", kText, "tcp://HOST:PORT where others reach --listen (default: as it says)"},
     {"--record", kText,
      "URL[,URL…]/KEY of etcd, or k8s://NAMESPACE/LEASE: says who of two machines is the primary"},
     {"--standby-of", kText, "tcp://HOST:PORT of the primary, where no record says it"},
     {"--standby-key", kText, "key file of this machine as a standby (keys client create)"},
     {"--workers", kInteger, "worker processes (default 1; 0: nodes have them)"},
     {"--threads", kInteger, "compute threads of a worker (default: the cores, shared out)"},
     {"--device", kText, kDeviceHelp, true, kNothing, "cpu opencl:0"},
     {"--context", kInteger, "tokens of a sequence at most (default: the model's, up to 4096)"},
     {"--kv-type", kText, "type of the KV cache: f32, f16, bf16, int8 or fp8 (default f16)", true,
      kNothing, kKvTypes},
     {"--engine", kText, "model, or fake for tests of everything around the engine", true, kNothing,
      "model fake"},
     {"--engine-options", kText, "JSON for the engine, as models add --options"},
     {"--kernels", kText, kKernelsHelp, true, kNothing, kFamilies},
     {"--config", kList, "NAME=VALUE of a knob (see config list); may be repeated", true,
      kAssignment},
     {"--config-file", kText, "file with NAME = VALUE lines (default STATE/holdfast.conf)", true,
      kFile},
     {"--step-watchdog-ms", kInteger,
      "a worker whose step shows no progress for so long is stuck and ends (default 10000)"},
     {"--ingress", kInteger, "helper processes that read prompts and files (default 2)"},
     {"--user", kText, "started as root: become this user before anything is opened"},
     {"--restart-max-ms", kInteger, "longest pause before a dead child's restart (default 1000)"},
     {"--log-mib", kInteger,
      "MiB after which a log in STATE/logs is moved to NAME.log.1 (default 64)"},
     {"--log-files", kInteger, "older logs that are kept of each process (default 3)"},
     {"--probe-timeout-ms", kInteger,
      "a process whose loop gives no answer for so long while it could is started again "
      "(default 3000; 0 = never)"},
     {"--verbose", kSwitch, "the children's logs on stderr, not in STATE/logs"}},
    &serve};

const Verb kNode = {
    "node",
    "workers of this machine for a daemon on another one (serve --listen), until SIGTERM",
    {{"--join", kText, "tcp://HOST:PORT of the daemon; of a pair both, with a comma between",
      false},
     {"--key", kText, "key file of `keys node create`, made on the daemon's machine", false, kFile},
     {"--root", kList,
      "directory whose models workers may load, found by their content; models that are fetched "
      "get "
      "into the first (default STATE/models); may be repeated",
      true, kDirectory},
     {"--workers", kInteger, "worker processes (default 1)"},
     {"--threads", kInteger, "compute threads of a worker (default: the cores, shared out)"},
     {"--device", kText, kDeviceHelp, true, kNothing, "cpu opencl:0"},
     {"--domain", kText,
      "name of what fails together with this machine, as a rack or a zone: replicas of a model are "
      "spread over such domains (default: this machine alone)"},
     {"--kernels", kText, kKernelsHelp, true, kNothing, kFamilies},
     {"--engine", kText, "model, or fake for tests of everything around the engine", true, kNothing,
      "model fake"},
     {"--verbose", kSwitch, "the workers' logs on stderr, not in STATE/logs"}},
    &node};

const Verb kGateway = {
    "gateway",
    "HTTP on this machine for a daemon on another one (serve --listen), until SIGTERM",
    {{"--join", kText, "tcp://HOST:PORT of the daemon", false},
     {"--key", kText, "key file of `keys gateway create`, made on the daemon's machine", false,
      kFile},
     {"--http", kList,
      "HOST:PORT of HTTP (default 127.0.0.1:8080; *:PORT is every address, port 0 picks a "
      "free one); may be repeated"},
     {"--tls-cert", kText, "HTTPS instead of HTTP: the certificate chain, PEM", true, kFile},
     {"--tls-key", kText, "its key, PEM without a passphrase", true, kFile},
     {"--cors-origin", kList,
      "a web page's origin (https://app.example, or *) that may read answers; may be repeated"},
     {"--verbose", kSwitch, "the gateway's log on stderr, not in STATE/logs"}},
    &gateway};

/// The arguments of `run`: what it runs, the sampling parameters, the rest.
std::vector<Argument> run_arguments() {
  std::vector<Argument> out = {
      {"MODEL", kText, "name of a model, or a GGUF file", false, kModelOrFile},
      {"PROMPT", kText,
       "the prompt; as -, or without it if stdin is no terminal, it is read from stdin"}};
  const std::vector<Argument> generation = generation_arguments();
  out.insert(out.end(), generation.begin(), generation.end());
  const Argument rest[] = {
      {"--prompt-logprobs", kInteger,
       "with --json: log-probability of each token of the prompt, and of so many alternatives"},
      {"--raw", kSwitch, "the prompt as it is"},
      {"--chat", kSwitch, "the prompt as a user's message (default if the model has a template)"},
      kFileDevice};
  out.insert(out.end(), std::begin(rest), std::end(rest));
  return out;
}

/// The arguments of `chat`.
std::vector<Argument> chat_arguments() {
  std::vector<Argument> out = {
      {"MODEL", kText, "name of a model, or a GGUF file", false, kModelOrFile},
      {"--session", kText, "name of the chat (default: the last one with this model)", true, kChat},
      {"--new", kSwitch, "begin another one"},
      {"--system", kText, "what precedes all turns, from now on"},
      {"--no-thinking", kSwitch, "do not show what the model thinks before it answers"}};
  const std::vector<Argument> generation = generation_arguments();
  out.insert(out.end(), generation.begin(), generation.end());
  out.push_back(kFileDevice);
  return out;
}

const Verb kRun = {"run", "one prompt, its text streamed to stdout; without one a chat",
                   run_arguments(), &run_prompt};
const Verb kChatVerb = {"chat", "several turns with a model, kept in the database",
                        chat_arguments(), &chat};

const Verb kPull = {
    "pull",
    "download a model, verify it and register it",
    {{"SOURCE", kText,
      "hf.co/ORG/REPO[:QUANT], https://HOST/FILE.gguf[#sha256=HEX], ollama://NAME[:TAG] or "
      "oci://HOST/REPOSITORY[:TAG]",
      false},
     {"--as", kText, "the model's name (default: from the source)"},
     {"--load", kSwitch, "load it when it is there"},
     {"--limit-rate", kReal, "MiB a second at most"},
     {"--no-wait", kSwitch, "return at once; the daemon goes on"}},
    &pull_model};

const Argument kPullName = {"NAME", kText, "the model's name, as jobs list shows it", false};

const Verb kModelsAdd = {
    "models add",
    "register a GGUF file under a name",
    {kName,
     {"PATH", kText,
      "the file, a folder with one model, or one of another program: hf:ORG/REPO, ollama:NAME, "
      "lmstudio:PUBLISHER/MODEL",
      false, kFile},
     {"--context", kInteger, "tokens of a sequence at most"},
     {"--slots", kInteger, "sequences at once"},
     {"--kv-type", kText, "type of the KV cache: f32, f16, bf16, int8 or fp8 (default f16)", true,
      kNothing, kKvTypes},
     {"--options", kText,
      "JSON for the engine: {\"prefix_cache\":false,\"drafts\":0,\"gap_ms\":500,"
      "\"kernels\":\"amx\"}, or the fake one's"},
     {"--template", kText, "file with the chat template, Jinja or Go's, in place of the model's",
      true, kFile},
     {"--system", kText, "system message of requests without one"},
     {"--parameter", kList, "NAME=VALUE that requests have by default; may be repeated"},
     {"--load", kSwitch, "load it now and wait until it is ready"}},
    &models_add};

const Verb kModelsAlias = {
    "models alias",
    "a name that stands for models: list them, or change one and its canary",
    {{"NAME", kText, "of the alias; without it all are listed", true, kAlias},
     {"--to", kText, "MODEL[=WEIGHT],… that new requests go to"},
     {"--when-ready", kSwitch, "load them first; if that fails the old targets stay"},
     {"--remove", kSwitch, "forget the alias; what was accepted ends where it is"},
     {"--canary", kText, "MODEL=PERCENT of new requests, compared with the others and rolled back"},
     {"--window", kReal, "seconds of a window (default canary.window_ms)"},
     {"--min-requests", kInteger, "requests without which a window says nothing"},
     {"--clear-errors", kInteger, "failures that roll back at once if most requests fail"},
     {"--max-error-rate", kInteger, "percent points above the stable side's failures"},
     {"--max-refusal-rate", kInteger, "percent points above the stable side's refusals"},
     {"--max-queue", kInteger, "waiting requests in percent of the canary's slots"},
     {"--max-ttft", kInteger, "time to the first token, percent of the stable side's"},
     {"--ttft-slack-ms", kInteger, "a difference of it that never counts"},
     {"--max-itl", kInteger, "time between tokens, percent of the stable side's"},
     {"--itl-slack-ms", kInteger, "a difference of it that never counts"},
     {"--promote-after", kInteger, "windows within the bounds after which it takes over"},
     {"--promote", kSwitch, "the canary takes over now"},
     {"--rollback", kSwitch, "the canary ends now"},
     {"--history", kSwitch, "changes, canaries and each decision with its numbers"},
     {"--limit", kInteger, "rows of the history at most (default 50)"},
     {"--no-wait", kSwitch, "do not wait until models are ready"}},
    &models_alias};

const Verb kInspect = {"inspect",
                       "a model file's header, tensors and memory envelope",
                       {kGguf,
                        {"--context", kInteger, "tokens of a sequence at most"},
                        {"--streams", kInteger, "sequences at once"}},
                       &inspect};

const Verb kTokenize = {"tokenize",
                        "text to token ids, by the file's tokenizer",
                        {kGguf,
                         {"TEXT", kText, "the text; without it, or as -, of stdin"},
                         {"--input", kText, "a text file (- is stdin), or the text", true, kFile},
                         {"--no-bos", kSwitch, "neither BOS nor EOS, whatever the file says"},
                         {"--no-special", kSwitch, "names of control tokens are plain text"}},
                        &tokenize};

const Verb kDetokenize = {"detokenize",
                          "token ids to text",
                          {kGguf,
                           {"IDS", kList, "1,2,3 or 1 2 3; without them, or as -, of stdin"},
                           {"--input", kText, "a file with ids (- is stdin)", true, kFile},
                           {"--no-special", kSwitch, "leave control tokens out"}},
                          &detokenize};

const Verb kRender = {
    "render",
    "what a chat template makes of messages, byte for byte",
    {{"TEMPLATE", kText, "a Jinja file, or a GGUF file with a template", false, kFile},
     {"--input", kText,
      "CASE.json: messages, tools, add_generation_prompt, bos_token, … (default, or as -: stdin)",
      true, kFile}},
    &render_chat};

const Verb kSynth = {
    "synth",
    "write a model with random weights in a known shape; `synth list` names them",
    {{"SHAPE", kText, "a known shape; list prints their names", false, kShape},
     {"OUT", kText, "the file to write", true, kFile},
     {"--arch", kText, "a tiny model of this architecture instead: synth --arch A OUT"},
     {"--rope", kText, "with --arch: none, linear, yarn, llama3 or longrope"},
     {"--type", kText, "type of the weights (default q8_0)", true, kType},
     {"--seed", kInteger, "of the random numbers (default 1)"}},
    &synth_model};

const Argument kThreads = {"-t,--threads", kInteger, "compute threads (default: the cores)"};
const Argument kDevice = {"--device", kText, kDeviceHelp, true, kNothing, "cpu opencl:0"};
const Argument kKernels = {"--kernels", kText, kKernelsHelp, true, kNothing, kFamilies};
const Argument kKvType = {
    "--kv-type", kText,    "type of the KV cache: f32, f16, bf16, int8 or fp8 (default f16)",
    true,        kNothing, kKvTypes};

const Verb kLogits = {"logits",
                      "logits of a token sequence, computed by the serving engine",
                      {kGguf,
                       {"--tokens", kText, "1,2,3, @FILE, or - for stdin"},
                       {"--positions", kText, "0,5 or all (default all)"},
                       {"--chunk", kInteger, "tokens of prefill a step (default 512)"},
                       {"--batch", kInteger, "other random sequences that run beside it"},
                       {"--decode", kSwitch, "one token at a time"},
                       kThreads,
                       kDevice,
                       kKernels,
                       kKvType},
                      &logits};

const Verb kEmbed = {"embed",
                     "vectors of texts as JSON, computed by the serving engine",
                     {kGguf,
                      {"TEXT", kList, "texts; without one, or as -, the text of stdin"},
                      {"--tokens", kList, "1,2,3 instead of a text; may come several times"},
                      {"--pooling", kText, "none, mean, cls or last (default: what the file names)",
                       true, kNothing, "none mean cls last"},
                      {"--no-normalize", kSwitch, "vectors as they are, not of length 1"},
                      kThreads,
                      kDevice,
                      kKernels,
                      kKvType},
                     &embed};

const Verb kPerplexity = {
    "perplexity",
    "perplexity of a text, with its standard error",
    {kGguf,
     {"--text", kText, "the text's file (default, or as -: stdin)", true, kFile},
     {"--window", kInteger, "tokens of a window (default 256); windows do not overlap"},
     {"--all-positions", kSwitch, "score whole windows, not their second halves alone"},
     kThreads,
     kDevice,
     kKernels,
     kKvType},
    &perplexity};

const Verb kQuantize = {"quantize",
                        "a model file with smaller weights; metadata and tokenizer stay",
                        {{"IN", kText, "the model, best F32, F16 or BF16", false, kFile},
                         {"OUT", kText, "the file to write", false, kFile},
                         {"TYPE", kText, "q8_0, q6_k, q5_k_m, q4_k_m, q4_0, f16, …", false, kType},
                         kThreads},
                        &quantize_model};

const Verb kConvert = {
    "convert",
    "a folder of Hugging Face's form into a GGUF file, or a GGUF file into such a folder",
    {{"IN", kText, "a folder or a GGUF file", false, kFile},
     {"OUT", kText, "the file, or the folder, to write", false, kFile}},
    &convert};

const Verb kBench = {
    "bench",
    "tokens a second of prefill and decode",
    {kGguf,
     {"-p,--prompt-tokens", kInteger, "tokens of prefill (default 512; 0: none)"},
     {"-n,--decode-tokens", kInteger, "tokens to decode (default 64; 0: none)"},
     {"-b,--streams", kInteger, "sequences at once (default 1)"},
     {"-c,--context", kInteger, "tokens that each has when decoding begins (default 1)"},
     {"--assume-context", kSwitch,
      "count them as computed: the time of a token is the same, hours are saved (with -p 0)"},
     {"-r,--repeat", kInteger, "samples of each rate (default 1)"},
     kThreads,
     kDevice,
     kKernels,
     kKvType},
    &bench};

const Verb kBenchCompare = {
    "bench-compare",
    "what became slower between two records (bench compare OLD NEW)",
    {{"OLD", kText, "a record of bench/matrix, peers or serve, or what --json bench printed", false,
      kFile},
     {"NEW", kText, "the same of another build", false, kFile},
     {"--threshold", kReal, "percent that a figure may be worse (default 5)"},
     {"--all", kSwitch, "also figures that did not change, or cannot be judged"}},
    &bench_compare};

const std::vector<Verb>& config_and_database_verbs() {
  static const std::vector<Verb> table = {
      {"config list", "every knob, its value and where that comes from", {}, &config_list},
      {"config get", "one knob's value", {kKnobName}, &config_get},
      {"config set",
       "give knobs values; in effect at once where no restart is needed",
       {{"NAME=VALUE", kList, "one or more", false, kAssignment}},
       &config_set},
      {"config unset",
       "knobs back to their defaults",
       {{"NAMES", kList, "one or more", false, kKnob}},
       &config_unset},
      {"config explain",
       "a knob's value, who set it where and when, and what it does",
       {kKnobName},
       &config_explain},
      {"config history",
       "the versions of the configuration",
       {{"--limit", kInteger, "rows at most (default 50)"}},
       &config_history},
      {"config diff",
       "what changed between two versions",
       {{"FROM", kInteger, "version (default: the one before)", true, kVersion},
        {"TO", kInteger, "version (default: the newest)", true, kVersion}},
       &config_diff},
      {"config rollback",
       "the settings of an older version, as a new one",
       {{"VERSION", kInteger, "as config history shows it; 0 is the defaults", false, kVersion}},
       &config_rollback},
      {"db check",
       "read the whole database (while a daemon runs: a copy of it), with every checksum",
       {{"FILE", kText, "a backup to check instead", true, kFile},
        {"--repair", kSwitch,
         "give rows that an older program wrote their checksum; no daemon may run"}},
       &db_check},
      {"db accept-loss",
       "go on without the end of the log that a start found lost",
       {},
       &db_accept_loss},
      {"db backup",
       "a complete copy, also while the daemon works, of a server elsewhere too",
       {{"FILE", kText, "the copy's file; - for standard output", false, kFile}},
       &db_backup},
      {"db restore",
       "put a backup in the database's place; no daemon may run",
       {kCopy},
       &db_restore},
      {"db stats", "sizes and rows of the database", {}, &db_stats},
      {"ha status",
       "this machine's part in a pair: primary or standby, and in step or not",
       {{"--check", kSwitch, "exit code 1 for a standby that is not in step"}},
       &ha_status},
      {"ha switch", "the standby takes over from this machine, in order", {}, &ha_switch},
      {"ha promote",
       "make this standby the primary, where no record decides it",
       {{"--force", kSwitch, "also if the primary lives, or went on without this machine"}},
       &ha_promote},
  };
  return table;
}

const std::vector<Verb>& request_verbs() {
  static const std::vector<Verb> table = {
      {"requests list",
       "the latest requests",
       {{"--limit", kInteger, "rows at most"},
        {"--with-state", kText, "only requests in this state", true, kNothing, kStates}},
       &requests_list},
      {"requests show", "one request with its choices and attempts", {kId}, &requests_show},
      {"requests cancel", "end a request", {kId}, &requests_cancel},
      {"requests requeue",
       "out of quarantine, or off its worker and into the queue again",
       {kId},
       &requests_requeue},
      {"requests move",
       "another priority class",
       {kId, {"--priority", kText, "interactive, normal or batch", false, kNothing, kPriorities}},
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

const std::vector<Verb>& peer_verbs() {
  static const std::vector<Verb> table = {
      {"keys node-create",
       "a key file for another machine with workers (keys node create)",
       {kPeerName, kKeyOut, kKeyExpires},
       &keys_node_create},
      {"keys node-revoke",
       "its connections end (in a second at most), and it is refused (keys node revoke)",
       {kPeerName},
       &keys_node_revoke},
      {"keys gateway-create",
       "a key file for an HTTP gateway on another machine (keys gateway create)",
       {kPeerName, kKeyOut, kKeyExpires},
       &keys_gateway_create},
      {"keys gateway-revoke",
       "its connections end (in a second at most), and it is refused (keys gateway revoke)",
       {kPeerName},
       &keys_gateway_revoke},
      {"keys client-create",
       "a key file for a program on another machine (keys client create)",
       {kPeerName,
        kKeyOut,
        {"--role", kText,
         "client (default), gateway: HTTP for all tenants, operator, or standby: the whole "
         "database",
         true, kNothing, "client gateway operator standby"},
        {"--tenant", kText, "of a client: whose its requests are (default: a tenant of its own)"},
        kKeyExpires},
       &keys_client_create},
      {"keys client-revoke",
       "its connections end (in a second at most), and it is refused (keys client revoke)",
       {kPeerName},
       &keys_client_revoke},
      {"keys peers", "the keys of other machines: role, tenant, end", {}, &keys_peers},
  };
  return table;
}

const std::vector<Verb>& gateway_verbs() {
  static const std::vector<Verb> table = {
      {"keys create",
       "a key for the gateway; it is printed once",
       {{"NAME", kText, "what it is for", false},
        {"--role", kText, "client (default), operator, or metrics: /metrics alone", true, kNothing,
         "client operator metrics"},
        {"--tenant", kText, "whose its requests are (default: a tenant of its own, the key's id)"},
        {"--expires", kInteger, "in so many days (default: never)"},
        {"--max-requests", kInteger, "waiting or running at once (default: 0, no limit)"},
        {"--requests-per-minute", kInteger, "accepted in any 60 s (default: 0, no limit)"},
        {"--priority", kText, "the highest that it may ask for: normal (default) or interactive",
         true, kNothing, "normal interactive"}},
       &keys_create},
      {"keys list", "all keys: role, tenant, end, limits", {}, &keys_list},
      {"keys update",
       "other limits or rights, from now on (a second at most)",
       {kKeyId,
        {"--max-requests", kInteger, "waiting or running at once; 0: no limit"},
        {"--requests-per-minute", kInteger, "accepted in any 60 s; 0: no limit"},
        {"--priority", kText, "the highest that it may ask for: normal or interactive", true,
         kNothing, "normal interactive"}},
       &keys_update},
      {"keys revoke", "from now on (a second at most) it is refused", {kKeyId}, &keys_revoke},
      {"webhooks create",
       "tell an address of the ends of batches and background responses; prints its secret once",
       {{"URL", kText, "https://HOST[:PORT]/PATH", false},
        {"--events", kText, "response.completed,batch.failed,… (default: all)"},
        {"--tenant", kText, "of this tenant alone (default: of all)"},
        {"--private", kSwitch, "it may be of this machine or a private network, and plain HTTP"}},
       &webhooks_create},
      {"webhooks list", "all of them", {}, &webhooks_list},
      {"webhooks delete", "tell it nothing any more", {kWebhookId}, &webhooks_delete},
      {"webhooks secret",
       "a new secret, printed once; the old one is signed with for another day",
       {kWebhookId},
       &webhooks_secret},
      {"webhooks deliveries",
       "what waits, and what came of the others in a week",
       {},
       &webhooks_deliveries},
      {"webhooks retry",
       "send it now, once more from the beginning",
       {{"ID", kText, "of webhooks deliveries", false, kDelivery}},
       &webhooks_retry},
  };
  return table;
}

const std::vector<Verb>& tool_verbs() {
  static const std::vector<Verb> table = {
      kInspect,
      kTokenize,
      kDetokenize,
      kRender,
      kLogits,
      kEmbed,
      kPerplexity,
      kBench,
      kBenchCompare,
      kSynth,
      kQuantize,
      kConvert,
      {"migrate from",
       "the flags of another server as ours: a serve line, settings, and what has none",
       {{"SERVER", kText, "llama-server, ollama or vllm", false, kNothing,
         "llama-server ollama vllm"},
        {"FLAGS", kList, "after --: its command line, as it is started today"},
        {"--env", kList, "NAME=VALUE of its environment; may be repeated"}},
       &migrate_from},
      {"completion",
       "print the completion script of a shell",
       {{"SHELL", kText, "bash or zsh", false, kNothing, "bash zsh"}},
       &completion},
      {"man",
       "print a manual page (roff): of holdfast, or of a verb",
       {{"VERB", kList, "as in `holdfast man models add`", true, kVerb}},
       &man},
      {"help",
       "what a verb does, its options and examples",
       {{"VERB", kList, "as in `holdfast help models add`", true, kVerb}},
       &help},
      {"version", "print the version of these programs", {}, &version},
      {"complete",
       "names for the completion scripts",
       {{"WHAT", kText, "models, requests, chats, workers, knobs, versions, shapes or verbs",
         false}},
       &complete,
       true},
  };
  return table;
}

std::vector<Verb> make_table() {
  std::vector<Verb> table = {
      kServe,
      kNode,
      kGateway,
      kRun,
      kChatVerb,
      {"chats list", "every chat, the last changed first", {}, &chats_list},
      {"chats show", "what was said in a chat", {kChatName}, &chats_show},
      {"chats remove", "forget a chat", {kChatName}, &chats_remove},
      {"status",
       "who is alive, what is loaded where, queue, rates, times, limits, and what is wrong",
       {{"--watch", kOptionalReal, "again every X seconds (default 2) until Ctrl-C"}},
       &status},
      {"doctor",
       "check this deployment: a line for each thing, with what to change",
       {{"--root", kText, "look at DIR/proc and DIR/sys: a container's view of its host", true,
         kDirectory},
        {"--http", kText, "HOST:PORT that serve would use (default 127.0.0.1:8080; none)"}},
       &doctor},
      kPull,
      {"jobs list", "pulls of models, the newest first", {}, &jobs_list},
      {"jobs show", "one pull in full", {kPullName}, &jobs_show},
      {"jobs cancel", "end a pull and delete what it has", {kPullName}, &jobs_cancel},
      {"jobs tail", "follow a pull until its end", {kPullName}, &jobs_tail},
      {"models list", "every model and its state", {}, &models_list},
      {"models found", "models that other programs have on this machine", {}, &models_found},
      {"models show", "one model in full", {kName}, &models_show},
      kModelsAdd,
      kModelsAlias,
      {"models remove", "forget a model", {kName}, &models_remove},
      {"models load",
       "load a model and wait until it is ready",
       {kName, {"--no-wait", kSwitch, "return at once"}},
       &models_load},
      {"models unload", "free a model's memory", {kName}, &models_unload},
      {"models pin", "never unload a model to make room for another", {kName}, &models_pin},
      {"models unpin", "let it make room again", {kName}, &models_unpin},
      {"models verify",
       "check a model's file, memory and answer against what was registered",
       {kName},
       &models_verify},
      {"nodes list", "other machines with workers: state, last sign of life", {}, &nodes_list},
      {"nodes show", "one of them", {kNodeName}, &nodes_show},
      {"nodes drain",
       "let its workers finish what they run and give them nothing new",
       {kNodeName},
       &nodes_drain},
      {"nodes resume", "give the workers of a drained node work again", {kNodeName}, &nodes_resume},
      {"workers list", "every worker, its device and load", {}, &workers_list},
      {"workers drain",
       "let a worker finish what it runs and give it nothing new",
       {kWorkerKey},
       &workers_drain},
      {"workers resume",
       "give a drained or quarantined worker work again",
       {kWorkerKey},
       &workers_resume},
  };
  table.insert(table.end(), request_verbs().begin(), request_verbs().end());
  table.insert(table.end(), gateway_verbs().begin(), gateway_verbs().end());
  table.insert(table.end(), peer_verbs().begin(), peer_verbs().end());
  const std::vector<Verb>& more = config_and_database_verbs();
  table.insert(table.end(), more.begin(), more.end());
  const std::vector<Verb>& tools = tool_verbs();
  table.insert(table.end(), tools.begin(), tools.end());
  return table;
}

}  // namespace

const std::vector<Verb>& verb_table() {
  static const std::vector<Verb> table = make_table();
  return table;
}

const Verb* find_verb(const std::string& path) {
  for (const Verb& verb : verb_table()) {
    if (path == verb.path) return &verb;
  }
  return nullptr;
}

std::vector<std::string> verb_groups() {
  std::vector<std::string> groups;
  for (const Verb& verb : verb_table()) {
    const std::string path = verb.path;
    const std::size_t space = path.find(' ');
    const std::string group = path.substr(0, space);
    if (space == std::string::npos || group_help(group)[0] == '\0') continue;
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  return groups;
}

const char* group_help(const std::string& group) {
  if (group == "models")
    return "models: list, found, show, add, alias, remove, load, unload, pin, unpin, verify";
  if (group == "chats") return "stored chats: list, show, remove";
  if (group == "migrate") return "coming from another server: from";
  if (group == "jobs") return "durable jobs: list, show, cancel, tail";
  if (group == "nodes") return "other machines with workers: list, show, drain, resume";
  if (group == "workers") return "workers: list, drain, resume";
  if (group == "requests") return "requests: list, show, cancel, requeue, move, tail";
  if (group == "queue") return "queue: stats, pause, resume";
  if (group == "ha") return "two machines, one service: status, switch, promote";
  if (group == "keys")
    return "keys of the gateway: create, list, update, revoke; of other machines: node, gateway, "
           "client, peers";
  if (group == "webhooks") return "webhooks: create, list, delete, secret, deliveries, retry";
  if (group == "db") return "the database: check, backup, restore, stats";
  if (group == "config")
    return "configuration: list, get, set, unset, explain, history, diff, rollback";
  return "";
}

}  // namespace holdfast::cli
