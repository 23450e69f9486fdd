#pragma once
// Clients that write down only what they saw: their requests, what was acknowledged, how it ended,
// what was wrong with the output. One line an event, written at once, so that the log of a client
// that is killed ends where it died.

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "tests/process/test_server.h"

namespace holdfast::process {

/// A request that clients make again and again, with the answer of an undisturbed server to it.
struct Spec {
  std::string prompt;
  std::int64_t tokens = 0;
  std::uint64_t seed = 0;
  std::int32_t n = 1;
  std::vector<std::vector<wire::TokenId>> ids;  // by choice
  std::string http_text;                        // only with one choice
  wire::Submit submit() const;
  std::int64_t tokens_of_all() const { return tokens * n; }
};
/// Tokens of a stream with several choices, put together.
class ChoiceIds {
 public:
  /// Adds an event; returns what is wrong with its index, or an empty string.
  std::string add(const wire::Event& event);
  const std::vector<std::vector<wire::TokenId>>& ids() const { return ids_; }
  std::int64_t count() const;
  /// The first token that differs from the expected one, or an empty string.
  std::string difference(const Spec& spec) const;

 private:
  std::vector<std::vector<wire::TokenId>> ids_;
};
/// Makes `count` requests, every fourth of them with two choices.
std::vector<Spec> make_specs(int count, std::int64_t tokens_min, std::int64_t tokens_max);
class ClientLog;
/// Fills in the answers of an undisturbed server. False: `why` says what was wrong.
bool fill_references(const TestServer& server, std::vector<Spec>& specs, ClientLog& log,
                     std::string* why);
bool save_specs(const std::vector<Spec>& specs, const std::string& path);
std::vector<Spec> load_specs(const std::string& path);

/// A log of lines: "try ID SPEC", "key KEY SPEC" (HTTP: the id is not known yet), "ack ID SPEC",
/// "cancel ID" (is going to ask), "end ID STATE TOKENS", "wrong ID WHY". Thread-safe.
class ClientLog {
 public:
  explicit ClientLog(const std::string& path);
  ~ClientLog();
  ClientLog(const ClientLog&) = delete;

  void tried(const std::string& id, std::size_t spec) { line("try", id, std::to_string(spec)); }
  void keyed(const std::string& key, std::size_t spec) { line("key", key, std::to_string(spec)); }
  void acked(const std::string& id, std::size_t spec);
  void cancels(const std::string& id) { line("cancel", id, ""); }
  void ended(const std::string& id, const std::string& state, std::int64_t tokens);
  void wrong(const std::string& id, const std::string& why) { line("wrong", id, why); }

  /// Requests between their acknowledgement and their end, as this log's clients see it.
  std::int64_t in_flight() const { return acked_.load() - ended_.load(); }
  std::int64_t ends() const { return ended_.load(); }
  const std::string& path() const { return path_; }

 private:
  void line(const char* what, const std::string& id, const std::string& rest);
  std::string path_;
  int fd_ = -1;
  std::atomic<std::int64_t> acked_{0};
  std::atomic<std::int64_t> ended_{0};
};

struct World {
  std::string endpoint;              // of the SDK
  std::function<std::string()> url;  // the HTTP server's URL at the moment
  const std::vector<Spec>* specs = nullptr;
  std::atomic<bool>* stop = nullptr;
  int cancel_percent = 8;
};

/// Makes request after request until `stop`; requests that were begun are brought to their end.
void run_sdk_client(const World& world, std::uint64_t seed, ClientLog& log);
void run_http_client(const World& world, std::uint64_t seed, ClientLog& log);

/// The main() of a client process: --client ENDPOINT SPECS LOG SEED THREADS. SIGTERM stops it.
int client_main(const std::vector<std::string>& args);

}  // namespace holdfast::process
