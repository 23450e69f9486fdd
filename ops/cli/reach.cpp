#include "ops/cli/reach.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "shared/base/environment.h"
#include "shared/client/peer_key.h"

namespace holdfast::cli {
namespace {

/// A verb, or with a blank at its end a group of verbs.
struct Row {
  std::string_view path;
  Reach reach;
};

constexpr Row kRows[] = {
    {"serve", Reach::kServer},
    {"node", Reach::kServer},
    {"gateway", Reach::kServer},
    {"chat", Reach::kServer},
    {"chats ", Reach::kServer},
    {"models verify", Reach::kServer},
    {"models found", Reach::kPrints},
    // Over HTTP keys and the secrets of webhooks are neither read nor made (docs/use/console.md).
    {"keys ", Reach::kServer},
    {"webhooks ", Reach::kServer},
    {"db check", Reach::kServer},
    {"db accept-loss", Reach::kServer},
    {"db backup", Reach::kListener},
    {"db restore", Reach::kServer},
    {"ha ", Reach::kServer},
    {"quantize", Reach::kFiles},
    {"convert", Reach::kFiles},
    {"synth", Reach::kFiles},
    {"migrate ", Reach::kPrints},
    {"doctor", Reach::kPrints},
    {"inspect", Reach::kPrints},
    {"tokenize", Reach::kPrints},
    {"detokenize", Reach::kPrints},
    {"render", Reach::kPrints},
    {"logits", Reach::kPrints},
    {"perplexity", Reach::kPrints},
    {"bench", Reach::kPrints},
    {"bench-compare", Reach::kPrints},
    {"completion", Reach::kPrints},
    {"complete", Reach::kPrints},
    {"man", Reach::kPrints},
    {"help", Reach::kPrints},
    {"version", Reach::kPrints},
};

bool names_state() {
  const char* state = std::getenv("HOLDFAST_STATE");
  return state != nullptr && state[0] != '\0';
}

Error elsewhere(const std::string& path, Reach reach, const Call& call) {
  const std::string source = call.url.empty() ? "HOLDFAST_URL" : "--url";
  const std::string names = source + " names another one, " + call.elsewhere() + "; ";
  if (reach == Reach::kListener) {
    return {Errc::kUsage, path + " is not asked over HTTP, and " + names +
                              "name its listener, tcp://HOST:PORT, and an operator's key in "
                              "HOLDFAST_KEY_FILE, or run it there"};
  }
  if (reach != Reach::kServer) {
    return {Errc::kUsage, path + " works on files of this machine and asks no server, and " +
                              names + "run it without " + source};
  }
  return {Errc::kUsage, path + " works on the machine of its server alone, and " + names +
                            "run it there, or name the state directory of this machine with "
                            "--state DIR"};
}

}  // namespace

Reach reach_of(std::string_view path) {
  const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& candidate) {
    return candidate.path.ends_with(' ') ? path.starts_with(candidate.path)
                                         : path == candidate.path;
  });
  return row == std::end(kRows) ? Reach::kDaemon : row->reach;
}

Result<void> choose_server(Call* call, const std::string& path) {
  if (!call->url.empty() && !call->state_dir.empty()) {
    return Error{Errc::kUsage,
                 "--url and --state exclude each other: a server elsewhere, or the "
                 "one of a state directory"};
  }
  const Reach reach = reach_of(path);
  if (reach == Reach::kPrints && call->url.empty()) return {};
  const std::string named = !call->url.empty() ? call->url
                            : !call->state_dir.empty() || names_state()
                                ? std::string()
                                : environment("HOLDFAST_URL");
  if (client::is_listener_url(named)) {
    call->listener = named;
    if (reach == Reach::kDaemon || reach == Reach::kListener) return {};
    return elsewhere(path, reach, *call);
  }
  HOLDFAST_TRY(call->remote,
               remote::find_address(call->url, !call->state_dir.empty() || names_state()));
  if (!call->remote || reach == Reach::kDaemon) return {};
  return elsewhere(path, reach, *call);
}

}  // namespace holdfast::cli
