// A server by its sockets: the queue of a state directory of this machine, or one elsewhere that
// listens for other machines.
#include <utility>

#include "shared/client/peer_key.h"
#include "shared/request_json/request_json.h"
#include "shared/sdk/server.h"
#include "shared/sdk/server_start.h"

namespace holdfast::sdk {
namespace {

using client::AllTenants;
using client::Answer;
using client::Failure;

/// Makes a document of an answer.
template <class T, class Write>
Answer<std::string> document(const Answer<T>& answer, Write write) {
  if (const auto* failure = std::get_if<Failure>(&answer)) return *failure;
  return write(std::get<T>(answer));
}

class LocalServer final : public Server {
 public:
  LocalServer(std::string state_dir, std::unique_ptr<client::Client> requests,
              std::unique_ptr<client::Client> operating)
      : state_dir_(std::move(state_dir)),
        requests_(std::move(requests)),
        operating_(std::move(operating)) {}

  Answer<std::string> submit(std::string_view request) override {
    auto parsed = request_json::parse_request(request);
    if (!parsed) {
      Failure failure;
      failure.code = parsed.error().code;
      failure.message = parsed.error().what;
      return failure;
    }
    return document(
        requests_->submit(client::Principal::local(parsed->tenant), std::move(parsed->submit)),
        [](const wire::Accepted& accepted) { return accepted.info.request_id; });
  }

  Answer<std::string> status(const std::string& id) override {
    return document(requests_->status(AllTenants::local(), id), request_json::state_json);
  }

  Answer<std::string> cancel(const std::string& id) override {
    return document(requests_->cancel(AllTenants::local(), id), request_json::state_json);
  }

  Answer<std::string> models() override {
    return document(requests_->models(AllTenants::local()), request_json::models_json);
  }

  Answer<std::string> operate(const std::string& verb, const std::string& args) override {
    return operating_->op(AllTenants::local(), verb, args);
  }

  Result<void> stop() override {
    if (!state_dir_.empty()) return stop_server(state_dir_);
    return Error{Errc::kUnsupported, "stop: works on the server's machine alone"};
  }

  client::StreamId open_stream(const std::string& id, client::StreamHandler handler) override {
    return requests_->open_stream(AllTenants::local(), id, {}, std::move(handler));
  }

  void hold_stream(client::StreamId stream, bool hold) override {
    requests_->hold_stream(stream, hold);
  }

  void close_stream(client::StreamId stream) override { requests_->close_stream(stream, true); }

 private:
  const std::string state_dir_;  // empty: it is elsewhere
  std::unique_ptr<client::Client> requests_;
  std::unique_ptr<client::Client> operating_;
};

}  // namespace

Result<std::unique_ptr<Server>> open_listener(const std::string& url) {
  HOLDFAST_TRY(const client::Options options, client::listener_options(url));
  HOLDFAST_TRY(auto requests, client::Client::connect(url, options));
  HOLDFAST_TRY(auto operating, client::Client::connect(url, options));
  return std::unique_ptr<Server>(
      std::make_unique<LocalServer>(std::string(), std::move(requests), std::move(operating)));
}

Result<std::unique_ptr<Server>> open_local(const std::string& state_dir, bool start) {
  if (start) HOLDFAST_CHECKED(ensure_server(state_dir));
  const std::string run = "ipc://" + state_dir + "/run/";
  HOLDFAST_TRY(auto requests, client::Client::connect(run + "clients.sock"));
  HOLDFAST_TRY(auto operating, client::Client::connect(run + "operator.sock"));
  return std::unique_ptr<Server>(
      std::make_unique<LocalServer>(state_dir, std::move(requests), std::move(operating)));
}

}  // namespace holdfast::sdk
