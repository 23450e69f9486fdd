// Costs of a launch and of small transfers, and of a barrier of all work-groups.

#include <algorithm>
#include <cstring>

#include "bench/device_probe_run/run.h"

namespace holdfast::bench::probe {
namespace {

constexpr std::size_t kNumbers = 36;  // of empty_40, after four buffers

void set_empty_40(Card& card, const opencl::KernelHandle& kernel, const opencl::MemoryHandle& x) {
  const cl_mem memory = x.get();
  for (cl_uint i = 0; i < 4; ++i) {
    if (card.good()) card.api().clSetKernelArg(kernel.get(), i, sizeof memory, &memory);
  }
  for (cl_uint i = 0; i < kNumbers; ++i) {
    const int value = static_cast<int>(i);
    if (card.good()) card.api().clSetKernelArg(kernel.get(), 4 + i, sizeof value, &value);
  }
}

/// Launches a kernel many times in a row.
void time_launches(Run& run, const std::string& name, const opencl::KernelHandle& kernel,
                   bool set_all, const opencl::MemoryHandle& x) {
  Card& card = run.card;
  const std::size_t launches = run.count(1000, 20);
  const Grid grid{run.count(run.units(), 1), 1, 64, 1};
  card.run(kernel, grid);
  opencl::EventHandle first, last;
  const std::int64_t start = now_us();
  for (std::size_t i = 0; i < launches; ++i) {
    if (set_all) set_empty_40(card, kernel, x);
    opencl::EventHandle event = card.launch(kernel, grid);
    (i == 0 ? first : last) = std::move(event);
  }
  const std::int64_t enqueued = now_us();
  card.finish();
  const std::int64_t done = now_us();
  const double n = static_cast<double>(launches);
  const double device_us = card.us_between(first, last);
  if (!card.good()) return;
  run.report.add(name + ".device", device_us / n, "us", {}, "device's clock, for each launch");
  run.report.add(name + ".wall", static_cast<double>(done - start) / n, "us");
  run.report.add(name + ".host", static_cast<double>(enqueued - start) / n, "us", {},
                 "of the calls that enqueue");
}

/// The same on a queue whose launches the device does not time, without events: as a model runs.
void time_plain_launches(Run& run, const std::string& name, const opencl::KernelHandle& kernel,
                         std::size_t full_launches = 5000) {
  Card& card = run.card;
  if (!card.good()) return;
  const opencl::Api& api = card.api();
  cl_int status = CL_SUCCESS;
  const opencl::QueueHandle queue(
      api, api.clCreateCommandQueue(card.context(), card.device().id, 0, &status));
  if (status != CL_SUCCESS) return card.fail("make a queue: " + opencl::status_text(status));
  const std::size_t launches = run.count(full_launches, 20), group = 64;
  const std::size_t items = static_cast<std::size_t>(run.count(run.units(), 1)) * group;
  const auto enqueue = [&](std::size_t n) {
    for (std::size_t i = 0; i < n && status == CL_SUCCESS; ++i) {
      status = api.clEnqueueNDRangeKernel(queue.get(), kernel.get(), 1, nullptr, &items, &group, 0,
                                          nullptr, nullptr);
    }
  };
  enqueue(launches / 10);
  api.clFinish(queue.get());
  const std::int64_t start = now_us();
  enqueue(launches);
  const std::int64_t enqueued = now_us();
  if (status == CL_SUCCESS) status = api.clFinish(queue.get());
  if (status != CL_SUCCESS) return card.fail("launch: " + opencl::status_text(status));
  const double n = static_cast<double>(launches);
  run.report.add(name + ".wall", static_cast<double>(now_us() - start) / n, "us");
  run.report.add(name + ".host", static_cast<double>(enqueued - start) / n, "us", {},
                 "of the calls that enqueue");
}

void launches(Run& run) {
  Card& card = run.card;
  const auto program = card.build("launch", program_text({"launch"}));
  const auto one = card.kernel(program, "empty_1"), forty = card.kernel(program, "empty_40");
  const auto x = card.buffer(4096);
  card.set(one, x);
  set_empty_40(card, forty, x);
  time_launches(run, "launch.one_argument", one, false, x);
  time_launches(run, "launch.forty_arguments", forty, false, x);
  time_launches(run, "launch.forty_arguments_set_each", forty, true, x);
  time_plain_launches(run, "launch.plain_one_argument", one);
  time_plain_launches(run, "launch.plain_forty_arguments", forty);
  const std::size_t rounds = run.count(1000, 10);
  const std::int64_t start = now_us();
  for (std::size_t i = 0; i < rounds; ++i) set_empty_40(card, forty, x);
  if (card.good()) {
    run.report.add("launch.set_argument",
                   static_cast<double>(now_us() - start) / static_cast<double>(rounds * 40), "us");
  }
  const double wall = [&] {
    std::vector<double> times;
    for (std::size_t i = 0; i < run.count(300, 5); ++i) {
      const std::int64_t begun = now_us();
      card.launch(one, {1, 1, 64, 1});
      card.finish();
      times.push_back(static_cast<double>(now_us() - begun));
    }
    return median(times);
  }();
  if (card.good()) run.report.add("launch.round_trip", wall, "us", {}, "launch and clFinish");
}

/// Kernels that each last a time on the device: what the wall time of one is more, the device
/// spends between them, unless the host takes longer.
void spins(Run& run) {
  Card& card = run.card;
  const auto program = card.build("spin", program_text({"ptx", "spin"}));
  const auto one = card.kernel(program, "spin_1"), forty = card.kernel(program, "spin_40");
  const auto x = card.buffer(4096);
  set_empty_40(card, forty, x);
  for (const int us : {3, 20}) {
    card.set_at(one, 0, static_cast<std::uint32_t>(us * 1000));
    card.set_at(forty, 4, us * 1000);
    const std::string name = "launch.spin_" + std::to_string(us) + "_us";
    time_plain_launches(run, name + "_one_argument", one, 1000);
    time_plain_launches(run, name + "_forty_arguments", forty, 1000);
  }
}

/// The median wall time of a call, in microseconds.
template <class F>
double median_us(Run& run, const F& call) {
  std::vector<double> times;
  for (std::size_t i = 0; i < run.count(300, 5); ++i) {
    const std::int64_t begun = now_us();
    call();
    times.push_back(static_cast<double>(now_us() - begun));
  }
  return median(times);
}

void transfers(Run& run) {
  Card& card = run.card;
  const auto x = card.buffer(4096);
  std::vector<unsigned char> bytes(64);
  const double written = median_us(run, [&] { card.write(x, 0, bytes.data(), 64); });
  const double read = median_us(run, [&] { card.read(x, 0, bytes.data(), 4); });
  if (!card.good()) return;
  run.report.add("launch.write_64_bytes", written, "us", {}, "blocking");
  run.report.add("launch.read_4_bytes", read, "us", {}, "blocking");
}

/// Maps pinned memory of the host once, and lets kernels use it while it is mapped.
void pinned(Run& run) {
  Card& card = run.card;
  const auto program = card.build("pinned", program_text({"launch"}));
  const auto kernel = card.kernel(program, "add_one");
  const auto in = card.buffer(4096, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR);
  const auto out = card.buffer(4096, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR);
  const auto map = [&](const opencl::MemoryHandle& memory) -> volatile int* {
    if (!card.good()) return nullptr;
    cl_int status = CL_SUCCESS;
    void* at = card.api().clEnqueueMapBuffer(card.queue(), memory.get(), CL_TRUE,
                                             CL_MAP_READ | CL_MAP_WRITE, 0, 4096, 0, nullptr,
                                             nullptr, &status);
    if (status != CL_SUCCESS) card.fail("map: " + opencl::status_text(status));
    return static_cast<volatile int*>(at);
  };
  volatile int* const given = map(in);
  volatile int* const answer = map(out);
  card.set(kernel, in, out);
  int wrong = 0, i = 0;
  const double us = median_us(run, [&] {
    if (!card.good()) return;
    *given = 10 * ++i;
    card.launch(kernel, {1, 1, 1, 1});
    card.finish();
    wrong += *answer != 10 * i + 1;
  });
  if (!card.good()) return;
  run.fact("pinned_memory_is_shared",
           wrong == 0 ? "yes" : "no: " + std::to_string(wrong) + " answers were old");
  run.report.add("launch.pinned_round_trip", us, "us", {},
                 "the host writes a word, a kernel answers, the host reads, without transfers");
}

void meet(Run& run, std::size_t groups) {
  Card& card = run.card;
  const std::size_t rounds = run.count(10'000, 100);
  const auto program = card.build("meet", program_text({"ptx", "meet"}));
  const auto kernel = card.kernel(program, "meet");
  const auto words = card.buffer(64), slots = card.buffer(groups * 4);
  card.zero(words, 64);
  card.zero(slots, groups * 4);
  card.set(kernel, words, slots, static_cast<int>(rounds));
  const double us = card.run(kernel, {groups, 1, 256, 1});
  const auto found = card.values_of<std::uint32_t>(words, 4);
  if (!card.good()) return;
  if (found[1] != 0) return card.fail("gave up: not all groups arrived within a second");
  if (found[2] != 0) {
    return card.fail(std::to_string(found[2]) + " times a neighbour had not arrived");
  }
  run.report.add("launch.barrier_of_" + std::to_string(groups), us / static_cast<double>(rounds),
                 "us", {}, "of all work-groups of 256 items, by atomics");
}

}  // namespace

void probe_launches(Run& run) {
  run.attempt("launch.launches", [&] { launches(run); });
  run.attempt_ptx("launch.spins", [&] { spins(run); });
  run.attempt("launch.transfers", [&] { transfers(run); });
  run.attempt("launch.pinned", [&] { pinned(run); });
  for (const std::size_t each : {1, 2}) {
    const std::size_t groups = run.units() * each;
    run.attempt_ptx("launch.barrier_of_" + std::to_string(groups), [&] { meet(run, groups); });
  }
}

}  // namespace holdfast::bench::probe
