// The verb `models verify`: the file against its hashes, the envelope against measured memory, and
// one fixed generation against the first one.

#include <cstdio>
#include <nlohmann/json.hpp>

#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"
#include "ops/terminal/text_stream.h"
#include "ops/terminal/width.h"
#include "shared/base/json_text.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr auto kFileTimeout = std::chrono::minutes(30);
constexpr const char* kTenant = "operator";
// Changing any of these makes every stored answer worthless.
constexpr const char* kPrompt = "The quick brown fox jumps over the lazy dog. One, two, three,";
constexpr std::int64_t kTokens = 16;
constexpr std::int64_t kQueueTimeoutMs = 600'000;

struct Part {
  std::string name;
  bool good = false;
  std::string text;
};

wire::Submit golden_submit(const std::string& model) {
  wire::Submit submit;
  submit.model = model;
  submit.priority = wire::PriorityClass::kInteractive;
  submit.prompts.emplace_back();
  submit.prompts[0].text = kPrompt;
  submit.max_tokens = kTokens;
  submit.sampling.temperature = 0;
  submit.sampling.ignore_eos = true;
  submit.seed_given = true;
  submit.queue_timeout_ms = kQueueTimeoutMs;  // a paused queue would hold it for ever
  submit.on_disconnect = wire::OnDisconnect::kCancel;
  return submit;
}

/// Ids that stand for the vector of the fixed prompt: all its numbers count in each id.
std::vector<wire::TokenId> vector_ids(const std::string& extra) {
  std::vector<wire::TokenId> ids;
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : extra) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  for (int i = 0; i < 2; ++i, hash >>= 31) ids.push_back(static_cast<int>(hash & 0x7fffffff));
  return ids;
}

/// Computes the answer to the fixed prompt.
Result<Streamed> golden_answer(client::Client& client, const std::string& name, const json& model) {
  wire::Submit submit = golden_submit(name);
  if (model.value("makes", "") == "vectors") {
    submit.max_tokens.reset();
    submit.sampling.extra = R"({"embedding":{}})";
  }
  const auto accepted = client.submit(client::Principal::local(kTenant), std::move(submit));
  if (const auto* failure = std::get_if<client::Failure>(&accepted)) {
    return Error{failure->code, failure->message};
  }
  auto streamed = follow(client, std::get<wire::Accepted>(accepted).info, false);
  if (const auto* failure = std::get_if<client::Failure>(&streamed)) {
    return Error{failure->code, failure->message};
  }
  Streamed& end = std::get<Streamed>(streamed);
  const std::string& id = end.info.request_id;
  if (end.info.state != wire::RequestState::kSucceeded || end.choices.size() != 1) {
    return Error{Errc::kInternal, "request " + id + " " +
                                      std::string(wire::state_name(end.info.state)) +
                                      "; see `holdfast requests show " + id + "`"};
  }
  return std::move(end);
}

/// Returns how the answer compares: "stored" if it is the first of its class.
Result<std::string> compare_golden(const Call& call, const std::string& numerics,
                                   const Streamed& end) {
  HOLDFAST_TRY(const auto client, connect_operator(call, std::chrono::seconds(30)));
  const json args = {{"name", call.text("NAME")},
                     {"class", numerics},
                     {"ids", end.choices[0].vector.empty() ? end.choices[0].ids
                                                           : vector_ids(end.choices[0].vector)}};
  const auto answer = client->op(client::AllTenants::local(), "models.golden", args.dump());
  if (const auto* refused = std::get_if<client::Failure>(&answer)) {
    return Error{refused->code, refused->message};
  }
  const json document = try_parse_json<json>(std::get<std::string>(answer));
  return document.is_object() ? document.value("golden", "") : std::string();
}

/// Lets the daemon compare the answer to the fixed prompt. Errors become the part's text.
Part check_golden(const Call& call) {
  Part part{"golden answer", false, {}};
  const auto connected = connect_clients(call);
  if (!connected) return part.text = connected.error().what, part;
  int exit = kExitDone;
  const auto model = operate(call, "models.show", {{"name", call.text("NAME")}}, exit);
  if (!model) return part.text = "models show failed", part;
  const auto end = golden_answer(**connected, call.text("NAME"), *model);
  if (!end) return part.text = end.error().what, part;
  const std::string& id = end->info.request_id;
  const auto record = operate(call, "requests.show", {{"id", id}}, exit);
  if (!record) return part.text = "request " + id + " cannot be shown", part;
  const std::string numerics = record->value("class", "");
  const auto compared = compare_golden(call, numerics, *end);
  if (!compared) return part.text = compared.error().what, part;
  part.good = true;
  part.text =
      (*compared == "stored" ? "stored, the first of class " : "the same as the first of class ") +
      numerics;
  return part;
}

Part check_file(const json& found) {
  Part part{"file", found.value("same_content", false), {}};
  if (!part.good) {
    part.text = found.value("path", "") + " has another content: SHA-256 " +
                found.value("sha", "") + ", registered " + found.value("registered_sha", "") +
                "; bring the file back, or add it again under its name";
  } else if (!found.value("same_mtime", false) || !found.value("same_size", false)) {
    part.good = false;
    part.text = found.value("path", "") +
                " was written again with the same content: loads will refuse it; `holdfast models "
                "add` registers it again";
  } else {
    part.text = "SHA-256 " + found.value("sha", "") + " as registered";
  }
  return part;
}

Part check_header(const json& found) {
  const std::string now = human_bytes(found.value("envelope_bytes", 0.0));
  Part part{"envelope", found.value("same_envelope", false), now + " by its header, as registered"};
  if (!part.good) {
    part.text = now + " by its header, registered " +
                human_bytes(found.value("registered_envelope_bytes", 0.0)) +
                ": this version computes it otherwise; `holdfast models add` takes that over";
  }
  return part;
}

/// Compares each load of the model with its reservation.
Part check_memory(const Call& call) {
  Part part{"memory", true, {}};
  int exit = kExitDone;
  const auto record = operate(call, "models.show", {{"name", call.text("NAME")}}, exit);
  if (!record) return {"memory", false, "models show failed"};
  for (const json& load : record->value("loads", json::array())) {
    const double taken = load.value("taken_bytes", 0.0);
    if (taken <= 0) continue;
    char percent[32];
    std::snprintf(percent, sizeof percent, "%+.1f %%", load.value("drift_percent", 0.0));
    part.text += (part.text.empty() ? "" : "; ") + load.value("worker", "") + " measured " +
                 human_bytes(taken) + ", " + percent + " of what is reserved";
    part.good = part.good && !load.value("drifts", false);
  }
  if (part.text.empty()) part.text = "no worker has measured it";
  if (!part.good) part.text += "; more than models.drift_percent: report it";
  return part;
}

}  // namespace

int models_verify(const Call& call) {
  int exit = kExitDone;
  const auto found =
      operate(call, "models.verify", {{"name", call.text("NAME")}}, exit, kFileTimeout);
  if (!found) return exit;
  std::vector<Part> parts = {check_file(*found), check_header(*found)};
  if (parts[0].good) {
    parts.push_back(check_golden(call));  // it loads the model, which is then measured
    parts.push_back(check_memory(call));
  }
  bool good = true;
  json document = {{"name", call.text("NAME")}, {"file", *found}, {"checks", json::array()}};
  for (const Part& part : parts) {
    good = good && part.good;
    document["checks"].push_back({{"what", part.name}, {"ok", part.good}, {"found", part.text}});
    if (!call.json) {
      print_lines((part.good ? "ok    " : "fail  ") + part.name + ": " + part.text + "\n", 6);
    }
  }
  document["ok"] = good;
  if (call.json) print_document(call, document);
  return good ? kExitDone : kExitFailed;
}

}  // namespace holdfast::cli
