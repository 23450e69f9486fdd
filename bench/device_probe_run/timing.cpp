#include "bench/device_probe_run/timing.h"

namespace holdfast::bench::probe {
namespace {

void report_times(Run& run, const Shape& shape, const Timed& one) {
  const double us = median(one.us);
  run.report.add_samples(one.name + ".us", one.us, "us", Better::kLower);
  const double rate = static_cast<double>(shape.bytes()) / us / 1e3;
  run.report.add(one.name + ".weights", rate, "GB/s");
  if (run.copy_rate > 0) run.report.add(one.name + ".of_copy", 100 * rate / run.copy_rate, "%");
  if (one.rows < 33) return;
  const double flop = 2.0 * static_cast<double>(shape.rows * shape.k * one.rows);
  run.report.add(one.name + ".rate", flop / us / 1e6, "TFLOP/s");
}

}  // namespace

Copies make_copies(Run& run, const std::vector<Panel>& panels, Order order, const Shape& shape) {
  const std::size_t count = run.count((std::size_t{600} << 20) / shape.bytes() + 2, 2);
  return {make_weights(run.card, panels, order, count * shape.bytes()), count};
}

void time_in_turn(Run& run, const Shape& shape, std::vector<Timed>& all) {
  Card& card = run.card;
  std::vector<opencl::EventHandle> events(all.size());
  const std::size_t rounds = run.count(30, 2);
  for (std::size_t round = 0; round < rounds + 1 && card.good(); ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t at = round % 2 == 0 ? i : all.size() - 1 - i;
      Copies& copies = *all[at].copies;
      const Prepared& ready = all[at].ready;
      ready.set_begin(card, ready.kernel, copies.next * shape.bytes());
      copies.next = (copies.next + 1) % copies.count;
      events[at] = card.launch(all[at].ready.kernel, all[at].ready.grid);
    }
    card.finish();
    for (std::size_t i = 0; i < all.size() && round > 0; ++i) {  // the first round is for warming
      all[i].us.push_back(card.us(events[i]));
    }
  }
  if (!card.good()) return;
  for (const Timed& one : all) report_times(run, shape, one);
}

}  // namespace holdfast::bench::probe
