// `holdfast chat MODEL`: several turns, whose history is rows of the database.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ops/chat/session.h"
#include "ops/cli/model_argument.h"
#include "ops/cli/submit_flags.h"
#include "ops/cli/suggest.h"
#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"
#include "shared/base/bytes.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

/// The flags of the call that a chat remembers.
ChatSettings settings_of(const Call& call) {
  ChatSettings settings;
  for (const Argument& argument : generation_arguments()) {
    const std::string key = argument_key(argument.name);
    if (call.has(key)) settings[key] = call.list(key);
  }
  return settings;
}

/// The request of a chat's settings: they are read as flags, wherever they come from.
Result<wire::Submit> submit_of(const Call& call, const ChatSettings& settings) {
  Call flags = call;
  for (auto& [key, values] : flags.values) values.clear();
  for (const auto& [key, values] : settings) flags.values[key] = values;
  return make_submit(flags);
}

Error unknown_model(const std::string& name, const std::vector<wire::ModelInfo>& models) {
  std::vector<std::string> names;
  for (const wire::ModelInfo& info : models) names.push_back(info.name);
  std::string near;
  for (const std::string& word : near_words(name, names)) near += (near.empty() ? "" : ", ") + word;
  return {
      Errc::kModelNotFound,
      "no model " + name +
          (near.empty() ? "; `holdfast models list` shows them, `holdfast models add NAME FILE` "
                          "adds one"
                        : "; did you mean " + near + "?")};
}

/// The model or alias of that name, which can chat. An adapter (MODEL:NAME) is looked up by its
/// model.
Result<wire::ModelInfo> find_chat_model(client::Client& client, const std::string& name) {
  const auto answer = client.models(client::AllTenants::local());
  if (const auto* failure = std::get_if<client::Failure>(&answer)) {
    return Error{failure->code, failure->message};
  }
  const auto& models = std::get<std::vector<wire::ModelInfo>>(answer);
  const auto find = [&](const std::string& searched) {
    return std::find_if(models.begin(), models.end(),
                        [&](const wire::ModelInfo& info) { return info.name == searched; });
  };
  auto found = find(name);
  if (found == models.end() && name.find(':') != std::string::npos) {
    found = find(name.substr(0, name.rfind(':')));
  }
  if (found == models.end()) return unknown_model(name, models);
  if (found->chat && !found->encoder) return *found;
  return Error{Errc::kNoChatTemplate, "model " + name + " has no chat template; `holdfast run " +
                                          name + " PROMPT --raw` continues a text"};
}

/// Asks for the model's memory before the first question is typed. What is wrong with it, the first
/// question is told.
void load_model(client::Client& operators, const wire::ModelInfo& model, bool say) {
  const bool idle =
      model.state == "registered" || model.state == "unloaded" || model.state == "failed";
  if (!model.alias_of.empty() || !idle) return;
  if (say) std::fprintf(stderr, "loading %s\n", model.name.c_str());
  (void)operators.op(client::AllTenants::local(), "models.load", json{{"name", model.name}}.dump());
}

/// A chat as it is opened.
struct Opened {
  ChatRow row;
  Conversation conversation;
  bool fresh = false;
};

/// A name for a chat with a model: its own, with odd characters as '-'.
std::string chat_name_of(const std::string& model, int number) {
  constexpr std::size_t kLongest = 48;
  std::string name = model.substr(0, kLongest);
  for (char& c : name) {
    if (!check_chat_name(std::string("a") + c)) c = '-';
  }
  if (!check_chat_name(name)) name.insert(0, "chat");
  return number < 2 ? name : name + "-" + std::to_string(number);
}

/// Opens the chats of one call. Errors are those of the store, and kConflict.
class Opener {
 public:
  Opener(const Call& call, client::Client& operators, std::string model)
      : call_(call), store_(operators), model_(std::move(model)) {}

  /// The chat that the call means: --session, else the last one with the model; a new one with
  /// --new, or if there is none.
  client::Answer<Opened> open() {
    const std::string session = call_.text("session");
    if (!session.empty()) return open_named(session);
    if (call_.has("new")) return make_numbered();
    const auto listed = store_.list();
    if (const auto* failure = std::get_if<client::Failure>(&listed)) return *failure;
    for (const ChatRow& row : std::get<std::vector<ChatRow>>(listed)) {
      if (row.model == model_) return open_named(row.name);
    }
    return make_numbered();
  }

 private:
  client::Answer<Opened> open_named(const std::string& name) {
    auto found = store_.find(name);
    if (const auto* failure = std::get_if<client::Failure>(&found)) return *failure;
    auto& stored = std::get<std::optional<ChatStore::Stored>>(found);
    if (!stored) return make(name);
    if (call_.has("new")) {
      return client::Failure{Errc::kConflict, "chat " + name +
                                                  " is there already; leave --new out to go on "
                                                  "with it, or `holdfast chats remove " +
                                                  name + "`"};
    }
    Opened opened{std::move(stored->row), {}, false};
    if (const auto good = opened.conversation.take(stored->journal); !good) {
      return client::Failure{good.error().code, "chat " + name + ": " + good.error().what};
    }
    return opened;
  }
  client::Answer<Opened> make(const std::string& name) {
    Opened opened;
    opened.fresh = true;
    opened.row.name = name;
    opened.row.uid = client::new_request_id();
    opened.row.model = model_;
    if (const auto failure = store_.make(opened.row)) return *failure;
    return opened;
  }
  client::Answer<Opened> make_numbered() {
    constexpr int kMost = 10'000;
    for (int number = 1;; ++number) {
      auto made = make(chat_name_of(model_, number));
      const auto* failure = std::get_if<client::Failure>(&made);
      if (failure == nullptr || failure->code != Errc::kConflict || number == kMost) return made;
    }
  }

  const Call& call_;
  ChatStore store_;
  std::string model_;
};

/// Forgets a chat in which nothing was asked.
void remove_if_empty(client::Client& operators, const std::string& name) {
  ChatStore store(operators);
  const auto found = store.find(name);
  const auto* stored = std::get_if<std::optional<ChatStore::Stored>>(&found);
  if (stored != nullptr && *stored && (*stored)->journal.empty()) (void)store.remove(name);
}

ChatOptions options_of(const Call& call, const wire::ModelInfo& model) {
  ChatOptions options;
  options.terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && !call.json;
  options.colour = options.terminal && use_colour();
  options.thinking = !call.has("no-thinking");
  options.output = model.output;
  options.make_submit = [&call](const ChatSettings& settings) { return submit_of(call, settings); };
  return options;
}

void say_that_it_ends(const Call& call, const ChatOptions& options) {
  if (!options.terminal || call.quiet) return;
  std::fputs("no daemon runs: the chat ends with this program\n", stderr);
}

/// Talks with a model that is served.
int talk(const Call& call, const std::string& model, bool lasts) {
  auto requests = connect_clients(call);
  if (!requests) return report_error(call, requests.error());
  auto operators = connect_operator(call, std::chrono::seconds(60));
  if (!operators) return report_error(call, operators.error());
  const auto info = find_chat_model(**requests, model);
  if (!info) return report_error(call, info.error());
  auto answer = Opener(call, **operators, model).open();
  if (const auto* failure = std::get_if<client::Failure>(&answer)) {
    return report_refusal(call, *failure);
  }
  auto& opened = std::get<Opened>(answer);
  opened.row.model = model;
  for (const auto& [key, values] : settings_of(call)) opened.row.settings[key] = values;
  ChatOptions options = options_of(call, *info);
  const std::string name = opened.row.name;
  options.open_with = "holdfast chat " + model + " --session " + name;
  load_model(**operators, *info, options.terminal && !call.quiet);
  if (!lasts) say_that_it_ends(call, options);
  Interrupts interrupts;
  const auto reader = make_line_reader(options.terminal, interrupts);
  const bool fresh = opened.fresh;
  ChatSession session(call, **requests, **operators, std::move(opened.row),
                      std::move(opened.conversation), std::move(options));
  const int exit = session.run(*reader, interrupts, call.list("system"));
  if (fresh) remove_if_empty(**operators, name);
  return exit;
}

}  // namespace

int chat(const Call& call) {
  if (const auto good = submit_of(call, settings_of(call)); !good) {
    return report_error(call, good.error());
  }
  if (call.has("session")) {
    const auto good = check_chat_name(call.text("session"));
    if (!good) return report_error(call, good.error());
  }
  if (!is_valid_utf8(call.text("system"))) {
    return report_error(call, Errc::kInvalidRequest, "--system is not valid UTF-8");
  }
  int exit = kExitDone;
  const auto served = serve_model(call, exit);
  if (!served) return exit;
  return talk(served->call, served->name, served->serve == nullptr);
}

}  // namespace holdfast::cli
