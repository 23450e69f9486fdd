#include "control/gateway/common/offline_call.h"

#include <memory>

#include "control/gateway/common/blame.h"
#include "control/gateway/common/model_binding.h"
#include "control/gateway/common/render.h"
#include "control/gateway/common/vectors.h"
#include "control/gateway/http/errors.h"

namespace holdfast::gateway {
namespace {

struct Call {
  Context& context;
  client::Principal principal;
  Generation generation;
  std::string request_id;
  std::function<void(OfflineAnswer)> done;
  std::unique_ptr<WholeAnswer> answer;
};
using CallPtr = std::shared_ptr<Call>;

/// True if a later try may succeed.
bool is_passing(Errc code) {
  switch (code) {
    case Errc::kQueueFull:
    case Errc::kRateLimited:
    case Errc::kStorageFull:
    case Errc::kDiskFull:
    case Errc::kDraining:
    case Errc::kNoStandby:
    case Errc::kUnreachable:
    case Errc::kTimeout:
      return true;
    default:
      return false;
  }
}

void fail(const CallPtr& call, const client::Failure& failure) {
  OfflineAnswer answer{error_response(failure), is_passing(failure.code)};
  answer.unreachable = failure.code == Errc::kUnreachable;
  call->done(std::move(answer));
}

void follow(const CallPtr& call, wire::RequestInfo info) {
  // The shape is that of the submission: the model's name may have got another file since.
  const Shape made = decode_shape(info.meta);
  Shape shape = call->generation.shape;
  if (!made.body_hash.empty()) shape.output = made.output;
  if (shape.api == Api::kEmbeddings) {
    call->answer = std::make_unique<VectorCollector>(shape, std::move(info));
  } else {
    call->answer = std::make_unique<Collector>(shape, std::move(info));
  }
  client::StreamHandler handler;
  handler.on_attached = [call](const wire::RequestInfo& now) { call->answer->update(now); };
  handler.on_event = [call](const wire::Event& event) { call->answer->on_event(event); };
  handler.on_fin = [call](const wire::RequestInfo& end) {
    const auto touch_guard = touch(call->context.blame, call->request_id);
    const bool whole =
        end.state != wire::RequestState::kCancelled && end.state != wire::RequestState::kExpired;
    call->done({call->answer->on_fin(end), false, whole});
  };
  handler.on_failure = [call](const client::Failure& failure) { fail(call, failure); };
  call->context.client.open_stream(call->principal, call->request_id, {}, std::move(handler));
}

void submit(const CallPtr& call) {
  wire::Submit message = call->generation.submit;
  message.request_id = call->request_id;
  message.body_hash = call->generation.shape.body_hash;
  message.on_disconnect = wire::OnDisconnect::kContinue;
  message.meta = encode_shape(call->generation.shape);
  call->context.client.submit_async(
      call->principal, std::move(message), [call](client::Answer<wire::Accepted> answer) {
        if (const auto* failure = std::get_if<client::Failure>(&answer)) {
          return fail(call, *failure);
        }
        follow(call, std::move(std::get<wire::Accepted>(answer).info));
      });
}

}  // namespace

ParseBody parser_of(std::string_view path) {
  if (path == api_path(Api::kChat)) return parse_chat;
  if (path == api_path(Api::kCompletions)) return parse_completion;
  if (path == api_path(Api::kEmbeddings)) return parse_embedding;
  return nullptr;
}

void call_offline(Context& context, const client::Principal& principal, Generation generation,
                  const std::string& request_id, std::function<void(OfflineAnswer)> done) {
  auto call = std::make_shared<Call>(
      Call{context, principal, std::move(generation), request_id, std::move(done), nullptr});
  Shape& shape = call->generation.shape;
  if (!is_chat(shape.api)) return submit(call);
  const std::string model = call->generation.submit.model;
  find_output(*context.outputs, context.client, model, [call](client::Answer<std::string> answer) {
    if (const auto* failure = std::get_if<client::Failure>(&answer)) return fail(call, *failure);
    const auto touch_guard = touch(call->context.blame, call->request_id);
    call->generation.shape.output = std::get<0>(answer);
    bind_to_model(&call->generation);
    submit(call);
  });
}

}  // namespace holdfast::gateway
