// The most that memory and matrix units of the device give.

#include <algorithm>

#include "bench/device_probe_run/run.h"

namespace holdfast::bench::probe {
namespace {

constexpr std::size_t kWarp = 32;
constexpr std::uint32_t kOperands = 0x3555b2aa;  // not zeros, with which units run cooler

/// The median of some runs, in microseconds.
template <class F>
double median_of_runs(Run& run, const F& once) {
  once();
  std::vector<double> times;
  for (std::size_t i = 0; i < run.count(7, 1); ++i) times.push_back(once());
  return median(times);
}

/// 10^9 a second.
double giga(double count, double us) {
  return us > 0 ? count / us / 1e3 : 0;
}

std::size_t stream_bytes(const Run& run) {
  const std::size_t most = static_cast<std::size_t>(run.card.device().max_alloc) / 2;
  return run.count(std::min<std::size_t>(std::size_t{2} << 30, most), 16 << 20) & ~4095ul;
}

}  // namespace

void measure_copy(Run& run) {
  Card& card = run.card;
  const std::size_t bytes = stream_bytes(run) / 2;
  const auto from = card.buffer(bytes), to = card.buffer(bytes);
  card.zero(from, bytes);
  const double us = median_of_runs(run, [&] {
    const opencl::EventHandle event = card.copy(from, 0, to, 0, bytes);
    card.finish();
    return card.us(event);
  });
  if (!card.good()) return;
  run.copy_rate = giga(2.0 * static_cast<double>(bytes), us);
  run.report.add("ceilings.copy", run.copy_rate, "GB/s", {}, "read and written");
}

namespace {

/// Memory of stream_bytes() with words of no pattern.
opencl::MemoryHandle filled(Run& run, cl_program program) {
  Card& card = run.card;
  const std::size_t bytes = stream_bytes(run);
  opencl::MemoryHandle memory = card.buffer(bytes);
  const auto fill = card.kernel(program, "fill_words");
  card.set(fill, memory);
  card.run(fill, {bytes / 4 / 256, 1, 256, 1});
  return memory;
}

void plain_stream(Run& run, std::size_t each) {
  Card& card = run.card;
  std::vector<Macro> macros;
  if (card.takes_ptx()) macros.push_back({"PTX", 1});
  const auto program = card.takes_ptx()
                           ? card.build("stream_plain", program_text({"ptx", "streams"}, macros))
                           : card.build("stream_plain", program_text({"streams"}));
  const auto kernel = card.kernel(program, "stream_plain");
  const std::size_t groups = run.units() * each, bytes = stream_bytes(run);
  const auto x = filled(run, program);
  const auto y = card.buffer(groups * 128 * 4);
  card.set(kernel, x, std::uint64_t{bytes / 16}, y);
  const double us = median_of_runs(run, [&] { return card.run(kernel, {groups, 1, 128, 1}); });
  if (!card.good()) return;
  run.report.add("ceilings.read_plain_" + std::to_string(each),
                 giga(static_cast<double>(bytes), us), "GB/s", {},
                 "groups of 128 items a compute unit: " + std::to_string(each));
}

/// `each` groups a compute unit with rings of eight stages of `stage` bytes.
void ring_stream(Run& run, const std::string& name, std::size_t each, std::size_t stage) {
  Card& card = run.card;
  const auto program = card.build(
      name, program_text({"ptx", "streams"}, {{"STAGES", 8}, {"STAGE_BYTES", long(stage)}}));
  const auto kernel = card.kernel(program, "stream_ring");
  const std::size_t groups = run.units() * each, chunks = stream_bytes(run) / stage;
  const auto x = filled(run, program);
  const auto y = card.buffer(groups * kWarp * 4);
  card.set(kernel, x, std::uint64_t{chunks}, y);
  const double us = median_of_runs(run, [&] { return card.run(kernel, {groups, 1, kWarp, 1}); });
  if (!card.good()) return;
  run.report.add("ceilings." + name, giga(static_cast<double>(chunks * stage), us), "GB/s", {},
                 std::to_string(each * stage * 8) + " bytes in flight a compute unit");
}

void rings(Run& run) {
  struct Ring {
    const char* name;
    std::size_t each, stage;  // stage: a multiple of 128
  };
  // Within 48 KB a group; then one group a compute unit.
  constexpr Ring kRings[] = {{"ring_8", 1, 1024},        {"ring_16", 1, 2048},
                             {"ring_32", 1, 4096},       {"ring_64", 2, 4096},
                             {"ring_128", 4, 4096},      {"ring_190", 5, 4864},
                             {"ring_190_of_4", 4, 5888}, {"ring_one_64", 1, 8192},
                             {"ring_one_128", 1, 16384}, {"ring_one_190", 1, 24320}};
  for (const Ring& ring : kRings) {
    const std::string name = ring.name;
    const auto item = [&] { ring_stream(run, name, ring.each, ring.stage); };
    if (ring.stage * 8 > 48 << 10 && run.card.takes_ptx()) {
      run.find_out(name, item);  // static local memory above 48 KB may not build
    } else {
      run.attempt_ptx("ceilings." + name, item);
    }
  }
}

/// 10^12 operations a second of a kernel that does `flop` a warp (or a warp group) and round.
void matrix_rate(Run& run, const char* name, cl_program program, Grid grid, std::size_t share,
                 double flop) {
  Card& card = run.card;
  const auto kernel = card.kernel(program, name);
  const std::size_t rounds = run.count(4096, 16);
  const std::size_t items = grid.groups_x * grid.items_x;
  const auto y = card.buffer(items * 4);
  card.set(kernel, y, static_cast<int>(rounds), kOperands);
  const double us = median_of_runs(run, [&] { return card.run(kernel, grid); });
  if (!card.good()) return;
  const double all = flop * static_cast<double>(rounds) * static_cast<double>(items / share);
  run.report.add("ceilings." + std::string(name), giga(all, us) / 1e3, "TFLOP/s");
}

}  // namespace

void probe_ceilings(Run& run) {
  run.attempt("ceilings.copy", [&] { measure_copy(run); });
  for (const std::size_t each : {2, 4, 8, 16}) {
    run.attempt("ceilings.read_plain_" + std::to_string(each), [&] { plain_stream(run, each); });
  }
  rings(run);
  const Grid grid{2 * run.units(), 1, 256, 1};
  run.attempt_ptx("ceilings.rate_f16", [&] {
    const auto program = run.card.build("rates", program_text({"ptx", "rates"}));
    matrix_rate(run, "rate_f16", program, grid, kWarp, 8 * 2.0 * 16 * 8 * 16);
    matrix_rate(run, "rate_s8", program, grid, kWarp, 8 * 2.0 * 16 * 8 * 32);
  });
  if (!run.card.takes_ptx()) return;
  run.find_out("rate_wgmma", [&] {
    const auto program = run.card.build_sm90a("wgmma", program_text({"ptx", "wgmma"}));
    matrix_rate(run, "rate_wgmma", program, {3 * run.units(), 1, 128, 1}, 128,
                4 * 2.0 * 64 * 256 * 16);
  });
}

}  // namespace holdfast::bench::probe
