// Submit a prompt, stream the answer, and show that a stream can be resumed from any index.
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

namespace hf = holdfast;

namespace {

int fail(const hf::client::Failure& failure) {
  std::fprintf(stderr, "%s: %s\n", std::string(hf::errc_name(failure.code)).c_str(),
               failure.message.c_str());
  return 1;
}

/// Streams choice 0 and prints its text from token `shown_from` on. Text is always rebuilt from
/// index 0, because only whole UTF-8 sequences are released; what was shown before stays quiet.
hf::client::Answer<hf::wire::RequestInfo> print_stream(hf::client::Client& client,
                                                       const std::string& request_id,
                                                       std::int64_t shown_from) {
  hf::text::Releaser releaser;
  const auto on_event = [&](const hf::wire::Event& event) {
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < event.ids.size(); ++i) {
      const std::string text = releaser.feed(event.bytes.substr(begin, event.ends[i] - begin));
      begin = event.ends[i];
      if (event.start + static_cast<std::int64_t>(i) < shown_from) continue;
      std::fputs(text.c_str(), stdout);
    }
    std::fflush(stdout);
  };
  auto end = client.stream(hf::client::Principal::local(), request_id, {}, on_event);
  std::puts(releaser.finish().c_str());
  return end;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s STATE_DIR MODEL PROMPT [MAX_TOKENS]\n", argv[0]);
    return 2;
  }
  auto client = hf::client::Client::connect(std::string("ipc://") + argv[1] + "/run/clients.sock");
  if (!client.has_value()) {
    std::fprintf(stderr, "%s\n", client.error().what.c_str());
    return 1;
  }
  hf::wire::Submit submit;
  submit.model = argv[2];
  submit.prompts.emplace_back().text = argv[3];
  submit.max_tokens = argc > 4 ? std::atoll(argv[4]) : 64;
  const auto accepted = client.value()->submit(hf::client::Principal::local(), std::move(submit));
  if (const auto* failure = std::get_if<hf::client::Failure>(&accepted)) return fail(*failure);
  const std::string id = std::get<hf::wire::Accepted>(accepted).info.request_id;
  std::fprintf(stderr, "request %s is durable\n", id.c_str());

  const auto end = print_stream(*client.value(), id, 0);
  if (const auto* failure = std::get_if<hf::client::Failure>(&end)) return fail(*failure);
  const auto& info = std::get<hf::wire::RequestInfo>(end);
  std::fprintf(stderr, "%s; once more, from half of it:\n",
               std::string(hf::wire::state_name(info.state)).c_str());

  const std::int64_t half = info.choices.empty() ? 0 : info.choices[0].next_index / 2;
  const auto again = print_stream(*client.value(), id, half);
  if (const auto* failure = std::get_if<hf::client::Failure>(&again)) return fail(*failure);
  return 0;
}
