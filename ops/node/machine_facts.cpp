#include "ops/node/machine_facts.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace holdfast::cli {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t kMemoryBytes = 128 << 20;  // more than most caches have
constexpr auto kMemoryTime = 50ms;
constexpr int kShortProbes = 4;
constexpr int kLongProbes = 3;  // the first ones find a connection that has not got up to speed
constexpr std::int64_t kLongProbeBytes = 512 << 10;

std::int64_t us_since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
}

/// Reads `words` over and over until `end`; returns the bytes that were read.
std::uint64_t read_until(const std::vector<std::uint64_t>& words, Clock::time_point end) {
  constexpr std::size_t kBlock = 1 << 17;  // words between looks at the clock
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
  for (std::size_t at = 0; Clock::now() < end;) {
    const std::size_t stop = std::min(at + kBlock, words.size());
    bytes += (stop - at) * sizeof(std::uint64_t);
    for (; at < stop; ++at) sum += words[at];
    if (at == words.size()) at = 0;
  }
  volatile std::uint64_t result = sum;  // so that the reads are not optimised away
  (void)result;
  return bytes;
}

/// Sends a probe and waits for its answer; returns the time, or nullopt without an answer.
std::optional<std::int64_t> probe_us(client::Client& daemon, std::int64_t bytes) {
  struct Wait {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<bool> good;
  };
  const auto wait = std::make_shared<Wait>();
  const auto begin = Clock::now();
  daemon.op_bytes_async(client::AllTenants::local(), "node.probe",
                        "{\"bytes\":" + std::to_string(bytes) + "}", {},
                        [wait, bytes](const client::Answer<client::OpAnswer>& answer) {
                          const auto* content = std::get_if<client::OpAnswer>(&answer);
                          const std::lock_guard lock(wait->mutex);
                          wait->good = content != nullptr &&
                                       static_cast<std::int64_t>(content->bytes.size()) == bytes;
                          wait->changed.notify_all();
                        });
  std::unique_lock lock(wait->mutex);
  wait->changed.wait(lock, [&] { return wait->good.has_value(); });
  if (!*wait->good) return std::nullopt;
  return us_since(begin);
}

/// Returns the shortest time of several probes; nullopt if one is not answered.
std::optional<std::int64_t> shortest_us(client::Client& daemon, std::int64_t bytes, int probes) {
  std::optional<std::int64_t> best;
  for (int i = 0; i < probes; ++i) {
    const auto took = probe_us(daemon, bytes);
    if (!took) return std::nullopt;
    best = std::min(best.value_or(*took), *took);
  }
  return best;
}

}  // namespace

std::int64_t measure_memory_rate(int threads) {
  const auto count = static_cast<std::size_t>(std::max(threads, 1));
  std::vector<std::vector<std::uint64_t>> words(count);
  std::atomic<std::size_t> waiting{count};
  std::atomic<std::uint64_t> bytes{0};
  std::vector<std::thread> readers;
  const std::size_t each = kMemoryBytes / sizeof(std::uint64_t) / count;
  for (auto& mine : words) {
    readers.emplace_back([&] {
      mine.assign(each, 1);
      waiting.fetch_sub(1);
      while (waiting.load() > 0) std::this_thread::yield();
      bytes.fetch_add(read_until(mine, Clock::now() + kMemoryTime));
    });
  }
  for (std::thread& reader : readers) reader.join();
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(kMemoryTime).count();
  return static_cast<std::int64_t>(bytes.load()) * 1'000'000 / us;
}

LinkFacts measure_link(client::Client& daemon) {
  LinkFacts facts;
  const auto short_us = shortest_us(daemon, 0, kShortProbes);
  if (!short_us) return facts;
  facts.round_trip_us = std::max<std::int64_t>(*short_us, 1);
  const auto long_us = shortest_us(daemon, kLongProbeBytes, kLongProbes);
  if (!long_us) return facts;
  facts.bytes_s = kLongProbeBytes * 1'000'000 / std::max<std::int64_t>(*long_us - *short_us, 1);
  return facts;
}

}  // namespace holdfast::cli
