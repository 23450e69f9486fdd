// The verb `status`, once or repeatedly.

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ops/cli/status_screen.h"
#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"
#include "ops/terminal/width.h"
#include "shared/base/json_text.h"
#include "shared/remote/operator.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr auto kAnswerTimeout = std::chrono::seconds(2);
constexpr double kShortest = 0.1, kLongest = 3600;

/// Blocks SIGINT and SIGTERM except in pause(): none can fall between two looks at a flag.
class Interrupts {
 public:
  Interrupts() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  /// Waits for so long; true if a signal came.
  bool pause(double seconds) const {
    timespec time{};
    time.tv_sec = static_cast<time_t>(seconds);
    time.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
    return sigtimedwait(&set_, nullptr, &time) > 0;
  }

 private:
  sigset_t set_{};
};

/// Cuts off at the end what does not fit the terminal: a screen that scrolls cannot be redrawn, and
/// its head is what matters most.
std::string fitted(const std::string& screen) {
  const std::size_t rows = terminal_rows();
  if (rows == 0) return screen;
  std::size_t at = 0;
  for (std::size_t line = 2; line < std::max<std::size_t>(rows, 3); ++line) {
    at = screen.find('\n', at);
    if (at == std::string::npos) return screen;
    ++at;
  }
  return at >= screen.size() ? screen : screen.substr(0, at) + "…\n";
}

/// "  http://HOST:PORT", the server elsewhere that is asked; empty for the one of this machine.
std::string server_label(const Call& call) {
  return call.remote ? "  " + call.remote->url : std::string();
}

class Watcher {
 public:
  explicit Watcher(const Call& call) : call_(call) {}

  void show() {
    const json document = ask();
    std::string block;
    if (call_.json) {
      block = document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    } else if (document.contains("error")) {
      block = now() + "  unreachable: " + document["error"].value("message", "") + "\n";
      block = wrap_lines(block, line_width());
    } else {
      block =
          now() + server_label(call_) + "\n" + status_screen(document, use_colour(), line_width());
    }
    if (!call_.json && isatty(STDOUT_FILENO) == 1) {
      block = "\033[H\033[J" + fitted(block);
    } else if (!call_.json && printed_) {
      block = "----\n" + block;
    }
    printed_ = true;
    std::fwrite(block.data(), 1, block.size(), stdout);
    std::fflush(stdout);
  }

 private:
  static std::string now() { return human_time(static_cast<std::int64_t>(time(nullptr)) * 1000); }

  static json failure(std::string_view code, const std::string& what) {
    return {{"error", {{"code", code}, {"message", what}}}};
  }

  /// The status document, or {"error": …}; a connection that failed is made anew the next time.
  json ask() {
    if (call_.remote) return read(remote::operate(*call_.remote, "status", "{}", kAnswerTimeout));
    if (client_ == nullptr) {
      auto client = connect_operator(call_, kAnswerTimeout);
      if (!client) return failure(errc_name(client.error().code), client.error().what);
      client_ = std::move(client).value();
    }
    return read(client_->op(client::AllTenants::local(), "status", "{}"));
  }

  /// Reads an answer; a connection that failed is given up.
  json read(const client::Answer<std::string>& answer) {
    if (const auto* refused = std::get_if<client::Failure>(&answer)) {
      client_.reset();
      return failure(errc_name(refused->code), refused->message);
    }
    json document = try_parse_json<json>(std::get<std::string>(answer));
    if (document.is_object()) return document;
    return failure("internal", "the daemon's answer is not JSON");
  }

  const Call& call_;
  std::unique_ptr<client::Client> client_;
  bool printed_ = false;
};

int watch(const Call& call, double seconds) {
  if (!(seconds >= kShortest && seconds <= kLongest)) {
    return report_error(call, Errc::kUsage, "status --watch: expected 0.1 to 3600 seconds");
  }
  const Interrupts interrupts;  // before the client's threads: they inherit the mask
  Watcher watcher(call);
  do {
    watcher.show();
  } while (!interrupts.pause(seconds));
  return kExitDone;
}

}  // namespace

int status(const Call& call) {
  if (call.has("watch")) return watch(call, call.real("watch"));
  int exit = kExitDone;
  const auto document = operate(call, "status", json::object(), exit);
  if (!document) return exit;
  if (call.json) {
    print_document(call, *document);
  } else {
    std::string screen = status_screen(*document, use_colour(), line_width());
    if (call.remote) screen = "asked " + call.remote->url + "\n" + screen;
    std::fwrite(screen.data(), 1, screen.size(), stdout);
    std::fflush(stdout);
  }
  return kExitDone;
}

}  // namespace holdfast::cli
