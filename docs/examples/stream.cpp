// Submits a prompt, streams the answer, and shows that a stream can be resumed from any index.
//
//   stream STATE_DIR MODEL "To be, or not" [MAX_TOKENS]
//
// Kill the daemon or a worker while it prints: it goes on where it was, byte for byte.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <variant>

#include "shared/client/client.h"
#include "shared/text/releaser.h"

namespace {

int fail(const holdfast::client::Failure& failure) {
  std::fprintf(stderr, "%s: %s\n", std::string(holdfast::errc_name(failure.code)).c_str(),
               failure.message.c_str());
  return 1;
}

/// Streams choice 0 and prints its text from token `print_from` on. Text is always rebuilt from
/// index 0, because only whole UTF-8 sequences are released; text before that token is not printed.
holdfast::client::Answer<holdfast::wire::RequestInfo> print_stream(holdfast::client::Client& client,
                                                                   const std::string& request_id,
                                                                   std::int64_t print_from) {
  holdfast::text::Releaser releaser;
  const auto on_event = [&](const holdfast::wire::Event& event) {
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < event.ids.size(); ++i) {
      const std::string text = releaser.feed(event.bytes.substr(begin, event.ends[i] - begin));
      begin = event.ends[i];
      if (event.start + static_cast<std::int64_t>(i) < print_from) continue;
      std::fputs(text.c_str(), stdout);
    }
    std::fflush(stdout);
  };
  auto end = client.stream(holdfast::client::Principal::local(), request_id, {}, on_event);
  std::puts(releaser.finish().c_str());
  return end;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s STATE_DIR MODEL PROMPT [MAX_TOKENS]\n", argv[0]);
    return 2;
  }
  auto client =
      holdfast::client::Client::connect(std::string("ipc://") + argv[1] + "/run/clients.sock");
  if (!client.has_value()) {
    std::fprintf(stderr, "%s\n", client.error().what.c_str());
    return 1;
  }
  holdfast::wire::Submit submit;
  submit.model = argv[2];
  submit.prompts.emplace_back().text = argv[3];
  submit.max_tokens = argc > 4 ? std::atoll(argv[4]) : 64;
  const auto accepted =
      client.value()->submit(holdfast::client::Principal::local(), std::move(submit));
  if (const auto* failure = std::get_if<holdfast::client::Failure>(&accepted))
    return fail(*failure);
  const std::string id = std::get<holdfast::wire::Accepted>(accepted).info.request_id;
  std::fprintf(stderr, "request %s is durable\n", id.c_str());

  const auto end = print_stream(*client.value(), id, 0);
  if (const auto* failure = std::get_if<holdfast::client::Failure>(&end)) return fail(*failure);
  const auto& info = std::get<holdfast::wire::RequestInfo>(end);
  std::fprintf(stderr, "%s; once more, from half of it:\n",
               std::string(holdfast::wire::state_name(info.state)).c_str());

  const std::int64_t half = info.choices.empty() ? 0 : info.choices[0].next_index / 2;
  const auto again = print_stream(*client.value(), id, half);
  if (const auto* failure = std::get_if<holdfast::client::Failure>(&again)) return fail(*failure);
  return 0;
}
