#pragma once
// The CLI's way to the daemon of a state directory, or over HTTP to one elsewhere.

#include <chrono>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "ops/terminal/call.h"
#include "ops/terminal/render.h"
#include "shared/base/result.h"
#include "shared/client/client.h"

namespace holdfast::cli {

/// "ipc://STATE/run/clients.sock" with the directory made absolute.
std::string clients_endpoint(const std::string& state_dir);
std::string operator_endpoint(const std::string& state_dir);

/// The same for the socket of a standby, which has no daemon.
std::string standby_endpoint(const std::string& state_dir);
/// True while a standby runs on the state directory.
bool standby_listens(const std::string& state_dir);

/// True once a process listens on the operator socket; looks until `patience` is over.
bool daemon_listens(const std::string& state_dir, std::chrono::milliseconds patience);
/// The same; patient only where a live supervisor is going to start the daemon again.
bool daemon_listens(const std::string& state_dir);

/// True if a daemon can be asked: one elsewhere is always, one of a state directory while it
/// listens.
bool daemon_answers(const Call& call);

/// A client of the daemon. kUsage for one elsewhere, which has no socket here. kUnreachable if no
/// daemon runs on this state directory: at once, or
/// after 1.5 s (the time of a restart) under a supervisor.
Result<std::unique_ptr<client::Client>> connect_clients(const Call& call);
Result<std::unique_ptr<client::Client>> connect_operator(const Call& call,
                                                         std::chrono::milliseconds timeout);

/// Sends an operator verb, over HTTP to a daemon elsewhere. The result, or nullopt after the error
/// has been reported (`exit` set).
std::optional<nlohmann::json> operate(const Call& call, const std::string& verb,
                                      const nlohmann::json& args, int& exit,
                                      std::chrono::milliseconds timeout = std::chrono::seconds(30));

/// Calls operate() and prints the result: as it is with --json, else for people.
int operate_and_print(const Call& call, const std::string& verb, const nlohmann::json& args,
                      RenderOptions options = {});

/// Lists every object of a kind, the oldest first; nullopt after the error was reported, with
/// `exit` set.
std::optional<nlohmann::json> list_objects(const Call& call, const char* kind, int& exit);

/// Calls operate() and prints the result: as it is with --json, else as one line.
int operate_and_say(const Call& call, const std::string& verb, const nlohmann::json& args,
                    const std::string& line);

/// Prints the outcome of a change: the document with --json, else one line, nothing with --quiet.
void print_change(const Call& call, const nlohmann::json& document, const std::string& line);

/// Prints a document: itself with --json, else rendered.
void print_document(const Call& call, const nlohmann::json& document, RenderOptions options = {});

}  // namespace holdfast::cli
