#include "control/gateway/ollama/pull_lines.h"

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/gateway/common/answers.h"
#include "control/gateway/http/errors.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kLook{300};
constexpr std::size_t kDigestDigits = 12;

/// Sends lines about one pull. Runs on the exchange's strand, and lives as long as it is polled.
class PullLines : public std::enable_shared_from_this<PullLines> {
 public:
  PullLines(Context& context, ExchangePtr exchange, client::AllTenants caller, std::string name,
            bool stream)
      : context_(context),
        exchange_(std::move(exchange)),
        caller_(caller),
        name_(std::move(name)),
        stream_(stream) {}

  void begin(const std::vector<std::string>& notes) {
    if (stream_) {
      Response head;
      head.content_type = "application/x-ndjson";
      exchange_->begin_stream(std::move(head), "");
      for (const std::string& note : notes) tell({{"status", note}});
    }
    look();
  }

 private:
  void look() {
    if (exchange_->closed()) return;
    const json args = {{"name", name_}};
    context_.operating->op_async(
        caller_, "pulls.show", args.dump(),
        [self = shared_from_this()](client::Answer<std::string> answer) {
          self->exchange_->post([self, answer = std::move(answer)] { self->show(answer); });
        });
  }

  void show(const client::Answer<std::string>& answer) {
    if (const auto* failure = std::get_if<client::Failure>(&answer)) {
      return fail(*failure);
    }
    const json pull = try_parse_json<json>(std::get<std::string>(answer));
    const std::string state = pull.is_object() ? pull.value("state", std::string()) : std::string();
    if (state == "done") return succeed();
    if (state == "failed" || state == "cancelled") return fail(failure_of(pull, state));
    if (stream_) tell(line_of(pull, state));
    exchange_->after(kLook, [self = shared_from_this()] { self->look(); });
  }

  /// Writes a line unless it is the one before.
  void tell(const json& line) {
    std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    if (text == last_) return;
    exchange_->write(text);
    last_ = std::move(text);
  }

  void succeed() {
    const json line = {{"status", "success"}};
    if (!stream_) return exchange_->respond(json_response(line));
    tell(line);
    exchange_->end();
  }

  void fail(const client::Failure& failure) {
    if (!stream_) return exchange_->respond(error_response(failure));
    tell({{"error", failure.message}});
    exchange_->end();
  }

  static client::Failure failure_of(const json& pull, const std::string& state) {
    client::Failure failure;
    failure.code = errc_from_name(pull.value("error_code", std::string()));
    failure.message = pull.value("error", std::string());
    if (state == "cancelled") {
      failure.code = Errc::kCancelled;
      failure.message = "the pull was cancelled";
    }
    return failure;
  }

  /// The line of a state, in Ollama's words.
  static json line_of(const json& pull, const std::string& state) {
    if (state == "registering") return {{"status", "writing manifest"}};
    if (state == "waiting") {
      return {{"status", "waiting for the next try: " + pull.value("error", std::string())}};
    }
    if (state != "downloading" && state != "verifying") return {{"status", "pulling manifest"}};
    if (state == "verifying") return {{"status", "verifying sha256 digest"}};
    std::string hash;
    for (const json& file : pull.value("files", json::array())) {
      hash = file.value("sha256", std::string());
      if (!file.value("done", false)) break;
    }
    return {{"status", "pulling " + hash.substr(0, kDigestDigits)},
            {"digest", "sha256:" + hash},
            {"total", pull.value("bytes", std::int64_t{0})},
            {"completed", pull.value("done_bytes", std::int64_t{0})}};
  }

  Context& context_;
  ExchangePtr exchange_;
  client::AllTenants caller_;
  std::string name_;
  bool stream_;
  std::string last_;
};

}  // namespace

void tell_of_pull(Context& context, const ExchangePtr& exchange, const std::string& name,
                  bool stream, const std::vector<std::string>& notes) {
  const auto caller = client::AllTenants::of(exchange->request().from);
  std::make_shared<PullLines>(context, exchange, *caller, name, stream)->begin(notes);
}

}  // namespace holdfast::gateway
