#include "ops/terminal/text_stream.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "ops/terminal/output.h"
#include "shared/text/releaser.h"
#include "shared/wire/vector_text.h"

namespace holdfast::cli {
namespace {

void emit(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Prints the text of the choices as the releaser (shared/text/releaser.h) allows it.
class Printer {
 public:
  Printer(const wire::RequestInfo& info, bool print) : print_(print) {
    const std::size_t n = std::max<std::size_t>(info.choices.size(), 1);
    out_.resize(n);
    releasers_.assign(n, text::Releaser(info.stops));
  }
  void feed(const wire::Event& event) {
    const auto choice = static_cast<std::size_t>(event.choice);
    if (choice >= out_.size()) return;
    std::size_t begin = 0;
    for (const std::uint32_t end : event.ends) {
      if (end < begin || end > event.bytes.size()) return;  // decode() has checked; be safe
      release(choice,
              releasers_[choice].feed(std::string_view(event.bytes).substr(begin, end - begin)));
      begin = end;
    }
    out_[choice].ids.insert(out_[choice].ids.end(), event.ids.begin(), event.ids.end());
    take_extra(event, choice);
  }

  /// Takes a vector, or the scores of the prompt.
  void take_extra(const wire::Event& event, std::size_t choice) {
    const bool vector = event.ids.size() == 1 && event.ids[0] == wire::kVectorToken;
    if (vector && event.extra.size() == 1) out_[choice].vector = event.extra[0];
    if (event.start == 0 && !event.extra.empty()) {
      out_[choice].scores = wire::read_prompt_scores(event.extra[0]);
    }
  }
  std::vector<StreamedChoice> finish() {
    for (std::size_t i = 0; i < out_.size(); ++i) {
      if (!releasers_[i].stopped()) release(i, releasers_[i].finish());
      if (print_ && out_.size() > 1) {
        emit("--- choice " + std::to_string(i) + "\n" + out_[i].text + "\n");
      }
    }
    if (print_ && out_.size() == 1) emit("\n");
    return std::move(out_);
  }

 private:
  void release(std::size_t choice, const std::string& text) {
    out_[choice].text += text;
    if (print_ && out_.size() == 1 && !text.empty()) emit(text);
  }
  bool print_;
  std::vector<StreamedChoice> out_;
  std::vector<text::Releaser> releasers_;
};

nlohmann::json token_json(const wire::PromptScores& scores, wire::TokenId id) {
  const auto entry = scores.token_bytes.find(id);
  return {{"id", id}, {"text", entry == scores.token_bytes.end() ? "" : entry->second.bytes}};
}

/// The scores of each token of the prompt; the first has none, nothing precedes it.
nlohmann::json scores_json(const wire::PromptScores& scores) {
  nlohmann::json out = nlohmann::json::array();
  for (std::size_t i = 0; i < scores.ids.size(); ++i) {
    nlohmann::json token = token_json(scores, scores.ids[i]);
    if (i > 0) {
      token["logprob"] = scores.scores[i - 1].logprob;
      token["rank"] = scores.scores[i - 1].rank;
      token["top"] = nlohmann::json::array();
    }
    for (std::int32_t k = 0; i > 0 && k < scores.top; ++k) {
      nlohmann::json other = token_json(scores, scores.top_of(i)[k].id);
      other["logprob"] = scores.top_of(i)[k].logprob;
      token["top"].push_back(std::move(other));
    }
    out.push_back(std::move(token));
  }
  return out;
}

}  // namespace

client::Answer<Streamed> follow(client::Client& client, const wire::RequestInfo& info, bool print) {
  Printer printer(info, print);
  const auto answer = client.stream(client::AllTenants::local(), info.request_id, {},
                                    [&](const wire::Event& e) { printer.feed(e); });
  if (const auto* failure = std::get_if<client::Failure>(&answer)) return *failure;
  return Streamed{std::get<wire::RequestInfo>(answer), printer.finish()};
}

std::string streamed_json(const Streamed& streamed) {
  nlohmann::json choices = nlohmann::json::array();
  for (std::size_t i = 0; i < streamed.choices.size(); ++i) {
    nlohmann::json choice = {
        {"index", i}, {"text", streamed.choices[i].text}, {"ids", streamed.choices[i].ids}};
    if (!streamed.choices[i].vector.empty()) {
      choice["embedding"] = wire::read_vector(streamed.choices[i].vector);
    }
    if (streamed.choices[i].scores) choice["prompt"] = scores_json(*streamed.choices[i].scores);
    if (i < streamed.info.choices.size()) {
      const wire::ChoiceInfo& end = streamed.info.choices[i];
      choice["finish"] = wire::finish_name(end.finish);
      if (!end.error_code.empty())
        choice["error"] = {{"code", end.error_code}, {"message", end.error}};
    }
    choices.push_back(choice);
  }
  const nlohmann::json document = {{"id", streamed.info.request_id},
                                   {"model", streamed.info.model},
                                   {"state", wire::state_name(streamed.info.state)},
                                   {"seed", streamed.info.sampling.seed},
                                   {"prompt_tokens", streamed.info.prompt_tokens},
                                   {"choices", choices}};
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

int report_end(const Call& call, const Streamed& streamed) {
  if (call.json) emit(streamed_json(streamed) + "\n");
  if (streamed.info.state == wire::RequestState::kSucceeded) return kExitDone;
  std::string why;
  for (const wire::ChoiceInfo& choice : streamed.info.choices) {
    if (why.empty() && !choice.error.empty())
      why = ": " + choice.error + " [" + choice.error_code + "]";
  }
  std::fprintf(stderr, "holdfast: request %s %s%s\n", streamed.info.request_id.c_str(),
               std::string(wire::state_name(streamed.info.state)).c_str(), why.c_str());
  return kExitFailed;
}

CancelOnSignal::CancelOnSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void CancelOnSignal::arm(client::Client& client, const std::string& request_id) {
  std::thread([&client, request_id] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    int signal = 0;
    sigwait(&set, &signal);
    client.cancel_async(client::AllTenants::local(), request_id, [](const auto&) {});
    sigwait(&set, &signal);
    _exit(128 + signal);
  }).detach();
}

}  // namespace holdfast::cli
