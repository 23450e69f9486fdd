#include "bench/serve_run/block.h"

#include <mutex>
#include <random>
#include <thread>

namespace holdfast::bench {
namespace {

std::int64_t prompt_length(const std::string& kind, int number) {
  constexpr std::int64_t kMixed[] = {64, 256, 1024};
  return kind == "mixed" ? kMixed[number % 3] : std::atoll(kind.c_str());
}

std::vector<std::int32_t> random_prompt(std::int64_t n, int vocab) {
  static std::mt19937 random(std::random_device{}());
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < n; ++i) {
    ids.push_back(static_cast<std::int32_t>(10 + random() % static_cast<unsigned>(vocab - 10)));
  }
  return ids;
}

using Prompts = std::vector<std::vector<std::int32_t>>;

Prompts random_prompts(const Workload& workload, int first, int count) {
  Prompts out;
  for (int i = 0; i < count; ++i) {
    out.push_back(random_prompt(prompt_length(workload.prompt, first + i), workload.vocab));
  }
  return out;
}

/// Collects the answers of several threads in one block.
class Gathering {
 public:
  /// Sends a request. False: it failed, and so has the block.
  bool ask(const Endpoint& to, const std::vector<std::int32_t>& prompt, std::int64_t max_tokens) {
    const Result<Answered> answered = complete(to, prompt, max_tokens);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!answered) {
      block_.failure = answered.error().what;
      return false;
    }
    block_.first_ms.push_back(answered->first_ms);
    block_.request_ms.push_back(answered->total_ms);
    block_.gap_ms.insert(block_.gap_ms.end(), answered->gap_ms.begin(), answered->gap_ms.end());
    block_.tokens += answered->tokens;
    block_.prompt_tokens += answered->prompt_tokens;
    return true;
  }
  Block end(std::vector<std::thread>& threads) {
    for (std::thread& thread : threads) thread.join();
    block_.seconds = static_cast<double>(now_us() - begin_) / 1e6;
    return std::move(block_);
  }

 private:
  std::mutex mutex_;
  Block block_;
  const std::int64_t begin_ = now_us();
};

}  // namespace

void Block::join(const Block& more) {
  first_ms.insert(first_ms.end(), more.first_ms.begin(), more.first_ms.end());
  gap_ms.insert(gap_ms.end(), more.gap_ms.begin(), more.gap_ms.end());
  request_ms.insert(request_ms.end(), more.request_ms.begin(), more.request_ms.end());
  tokens += more.tokens;
  prompt_tokens += more.prompt_tokens;
  seconds += more.seconds;
}

Block closed_block(const Endpoint& to, const Workload& workload, int clients, int rounds) {
  std::vector<Prompts> prompts;
  for (int c = 0; c < clients; ++c) prompts.push_back(random_prompts(workload, c, rounds));
  Gathering gathering;
  std::vector<std::thread> threads;
  for (const Prompts& mine : prompts) {
    threads.emplace_back([&] {
      for (const auto& prompt : mine) {
        if (!gathering.ask(to, prompt, workload.max_tokens)) return;
      }
    });
  }
  return gathering.end(threads);
}

Block open_block(const Endpoint& to, const Workload& workload, double per_second, int requests,
                 unsigned seed) {
  std::mt19937 random(seed);
  std::exponential_distribution<double> pause(per_second);
  const Prompts prompts = random_prompts(workload, 0, requests);
  Gathering gathering;
  std::vector<std::thread> threads;
  double due_ms = 0;
  const std::int64_t begin = now_us();
  for (const auto& prompt : prompts) {
    sleep_ms(due_ms - static_cast<double>(now_us() - begin) / 1000);
    threads.emplace_back([&] { gathering.ask(to, prompt, workload.max_tokens); });
    due_ms += 1000 * pause(random);
  }
  return gathering.end(threads);
}

void add_figures(Report& report, const std::string& name, const std::vector<Block>& blocks) {
  Block all;
  std::vector<double> rates, prompt_rates;
  for (const Block& block : blocks) {
    all.join(block);
    rates.push_back(block.rate());
    prompt_rates.push_back(static_cast<double>(block.prompt_tokens) / block.seconds);
  }
  report.add_samples(name + ".rate", rates, "tokens/s", Better::kHigher);
  report.add_samples(name + ".prompt_rate", prompt_rates, "prompt tokens/s", Better::kHigher);
  report.add(name + ".first_ms", summarize(all.first_ms), "ms");
  report.add(name + ".gap_ms", summarize(all.gap_ms), "ms");
}

}  // namespace holdfast::bench
