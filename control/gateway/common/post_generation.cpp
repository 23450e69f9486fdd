// A repeated POST (same Idempotency-Key, or a Last-Event-ID that names the request) finds the
// request that it made before.

#include "control/gateway/common/post_generation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/gateway/common/attachment.h"
#include "control/gateway/common/model_binding.h"
#include "control/gateway/common/params.h"
#include "control/gateway/common/post_headers.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/http/sse.h"
#include "shared/base/crash_point.h"
#include "shared/base/json_fields.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

/// State of one POST that outlives the handler.
struct Post {
  Context& context;
  ExchangePtr exchange;
  Generation generation;
  PostHeaders headers;
  MakeWhole whole;  // empty: the document of the shape
};

void show(Post& post, wire::RequestInfo info, bool duplicate,
          const std::optional<wire::KeyStanding>& key = {},
          const std::vector<std::string>& notes = {}) {
  View view;
  view.shape = post.generation.shape;
  view.leaves_for_good = leaves_for_good(post.headers, view.shape.stream);
  // The shape is that of the submission: the model's name may have got another file since.
  const Shape made = decode_shape(info.meta);
  if (!made.body_hash.empty()) {
    view.shape.output = made.output;
    view.shape.usage_details = made.usage_details;
  }
  view.headers = answer_headers(post.generation.ignored, duplicate, key, notes);
  if (post.whole) view.whole = post.whole(info);
  if (post.headers.resume) {
    if (post.headers.resume->request_id != info.request_id) {
      return post.exchange->respond(resume_mismatch("Last-Event-ID names request " +
                                                    post.headers.resume->request_id +
                                                    ", this POST is request " + info.request_id));
    }
    view.resume_from = post.headers.resume->sent;
  }
  show_request(post.context, post.exchange, std::move(info), std::move(view));
}

void on_accepted(Post& post, client::Answer<wire::Accepted> answer) {
  if (const auto* failure = std::get_if<client::Failure>(&answer)) {
    return post.exchange->respond(error_response(*failure));
  }
  crash_point(CrashPoint::kGatewaySubmitAfter);
  auto& accepted = std::get<wire::Accepted>(answer);
  if (post.exchange->closed()) {
    // No client knows this request's id or is attached to it, so no disconnect would be noticed.
    if (post.headers.on_disconnect == wire::OnDisconnect::kCancel && !accepted.duplicate) {
      post.context.client.cancel_async(post.exchange->request().from, accepted.info.request_id,
                                       [](const client::Answer<wire::RequestInfo>&) {});
    }
    return;
  }
  show(post, std::move(accepted.info), accepted.duplicate, accepted.key, accepted.notes);
}

void submit(const std::shared_ptr<Post>& post) {
  crash_point(CrashPoint::kGatewaySubmitBefore);
  wire::Submit message = std::move(post->generation.submit);
  message.request_id = post->context.new_request_id();
  put_limits(post->exchange->request(), &message, &post->generation.ignored);
  message.idem_key = post->headers.idem_key;
  message.body_hash = post->generation.shape.body_hash;
  message.on_disconnect = post->headers.on_disconnect;
  post->generation.shape.client_id = client_request_id(post->exchange->request());
  message.meta = encode_shape(post->generation.shape);
  post->context.client.submit_async(
      post->exchange->request().from, std::move(message),
      [post](client::Answer<wire::Accepted> answer) {
        post->exchange->post([post, answer = std::move(answer)]() mutable {
          on_accepted(*post, std::move(answer));
        });
      });
}

/// Finds how the model writes before a chat is submitted; the request stores that.
void submit_chat(const std::shared_ptr<Post>& post) {
  find_output(*post->context.outputs, post->context.client, post->generation.submit.model,
              [post](client::Answer<std::string> answer) {
                post->exchange->post([post, answer = std::move(answer)] {
                  if (const auto* failure = std::get_if<client::Failure>(&answer)) {
                    return post->exchange->respond(error_response(*failure));
                  }
                  post->generation.shape.output = std::get<0>(answer);
                  bind_to_model(&post->generation);
                  submit(post);
                });
              });
}

/// Finds the request that Last-Event-ID names. A client that reconnects without a key must never
/// start a second one. The body must be that of the first POST.
void find_again(const std::shared_ptr<Post>& post) {
  post->context.client.status_async(
      caller_of(post->exchange->request()), post->headers.resume->request_id,
      [post](client::Answer<wire::RequestInfo> answer) {
        post->exchange->post([post, answer = std::move(answer)]() mutable {
          if (const auto* failure = std::get_if<client::Failure>(&answer)) {
            return post->exchange->respond(error_response(*failure, "Last-Event-ID"));
          }
          auto& info = std::get<wire::RequestInfo>(answer);
          if (decode_shape(info.meta).body_hash != post->generation.shape.body_hash) {
            return post->exchange->respond(resume_mismatch(
                "Last-Event-ID names request " + info.request_id + ", which had another body"));
          }
          show(*post, std::move(info), true);
        });
      });
}

}  // namespace

void post_generation(Context& context, const ExchangePtr& exchange, ParseBody parse,
                     MakeWhole whole) {
  const Request& request = exchange->request();
  auto post = std::make_shared<Post>(Post{context, exchange, {}, {}, std::move(whole)});
  FieldError error;
  json body;
  if (!read_post_headers(request, &post->headers, &error) ||
      !parse_json_object(request.body, &body, &error) ||
      !parse(body, context.params, &post->generation, &error)) {
    return exchange->respond(error_response(error));
  }
  Shape& shape = post->generation.shape;
  shape.body_hash = hash_body(request.path, body);
  const auto& resume = post->headers.resume;
  if (resume && resume->sent.size() != static_cast<std::size_t>(shape.choices)) {
    return exchange->respond(error_response(
        FieldError{"Last-Event-ID has " + std::to_string(resume->sent.size()) +
                       " indexes, this request has " + std::to_string(shape.choices) + " choices",
                   "Last-Event-ID"}));
  }
  if (resume && post->headers.idem_key.empty()) return find_again(post);
  if (is_chat(shape.api)) return submit_chat(post);
  submit(post);
}

}  // namespace holdfast::gateway
