#pragma once
// A whole server as real processes: `holdfast serve` on a state directory and a port of its own,
// and the CLI and the SDK against it. For tests of what only processes can show.

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "shared/client/client.h"

namespace holdfast::process {

std::string demo_model();

/// A program's end: its exit code (-signal if one killed it) and its output.
struct Ended {
  int code = -1;
  std::string out;
  std::string err;
};
/// Runs a program of bin/ (or one with a whole path) to its end. SIGKILL after `patience_s`: a
/// hanging program fails the test.
Ended run_program(const std::vector<std::string>& args, int patience_s = 120);

/// A temporary directory, removed by the destructor.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string write(const std::string& name, const std::string& bytes) const;

 private:
  std::string path_;
};

std::string read_file(const std::string& path);

class TestServer {
 public:
  /// `program`: of bin/, or with a whole path.
  explicit TestServer(std::string state_dir, std::string program = "holdfast")
      : state_(std::move(state_dir)), program_(std::move(program)) {}
  ~TestServer();
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  /// Starts `holdfast serve --state … FLAGS` (on a free port) and waits for its ready line. False
  /// if it ended instead; exit_code() and errors() then say why.
  bool start(const std::vector<std::string>& flags);
  /// Sends SIGTERM; returns the exit code.
  int stop();
  void kill_supervisor();  // SIGKILL

  const std::string& url() const { return url_; }
  const std::string& state() const { return state_; }
  int exit_code() const { return exit_code_; }
  std::string errors() const;  // its stderr and the tails of the logs
  pid_t supervisor_pid() const { return pid_; }

  /// The pid in STATE/run/supervisor.json; 0 if there is none (now).
  pid_t pid_of(const std::string& name) const;
  std::int64_t restarts_of(const std::string& name) const;
  /// Sends SIGKILL to a child, by name ("daemon", "worker-0", "gateway", "ingress-0").
  bool kill_child(const std::string& name) const;

  std::unique_ptr<client::Client> client() const;
  std::unique_ptr<client::Client> operator_client() const;
  Ended cli(std::vector<std::string> args) const;

 private:
  int wait_for_end(int patience_s);
  std::string state_;
  std::string program_;
  std::string url_;
  pid_t pid_ = 0;
  int out_fd_ = -1;
  int exit_code_ = -1;
};

/// The tokens and the text of one choice, as the SDK gave them.
struct StreamResult {
  std::vector<wire::TokenId> ids;
  std::string text;
  wire::RequestInfo info;
  std::string failure;  // typed code and message, if there was one
};
/// Submits and streams to the end; calls `on_progress(n)` after each event, n = tokens so far.
StreamResult submit_and_stream(client::Client& client, const wire::Submit& submit,
                               const std::function<void(std::size_t)>& on_progress = {});

/// Sends one GET; returns the whole answer with its header, empty if the connection was refused or
/// cut.
std::string http_get(const std::string& url, const std::string& path);

/// A seeded request for a fixed number of tokens.
wire::Submit make_submit(const std::string& prompt, std::int64_t tokens, std::uint64_t seed);

}  // namespace holdfast::process
