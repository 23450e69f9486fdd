#include "worker/backend/opencl/device/device_context.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "worker/backend/opencl/device/queue.h"

namespace holdfast::opencl {
namespace {

using Together = std::vector<cl_device_id>;  // the devices of a context

std::mutex g_mutex;
std::map<std::pair<const Api*, std::pair<Together, cl_device_id>>, std::weak_ptr<DeviceContext>>
    g_open;
std::map<std::pair<const Api*, Together>, std::weak_ptr<const Context>> g_contexts;

Result<std::shared_ptr<const Context>> context_of(const Device& d, const Together& together) {
  std::weak_ptr<const Context>& entry = g_contexts[{d.api, together}];
  if (auto open = entry.lock()) return open;
  cl_int status = CL_SUCCESS;
  Context context(*d.api, d.api->clCreateContext(nullptr, static_cast<cl_uint>(together.size()),
                                                 together.data(), nullptr, nullptr, &status));
  if (status != CL_SUCCESS) {
    return Error{Errc::kModelFailed, "open " + d.name + ": " + status_text(status)};
  }
  auto made = std::make_shared<const Context>(std::move(context));
  entry = made;
  return made;
}

/// Tries whether a copy from one device to another one gives the numbers that were written.
bool copies_arrive(DeviceContext& from, DeviceContext& to) {
  constexpr std::int64_t kRows = 4, kColumns = 4096;
  const Api& api = *from.device().api;
  auto write_queue = from.make_queue(), copy_queue = to.make_queue();
  if (!write_queue || !copy_queue) return false;
  // Zeros, so that an earlier trial's numbers do not pass for a copy.
  const std::uint64_t bytes = kRows * kColumns * sizeof(float);
  auto source = from.memory().take(write_queue->get(), bytes, "a trial");
  auto target = to.memory().take(copy_queue->get(), bytes, "a trial");
  if (!source || !target) return false;
  Queue writer(api, std::move(write_queue).value(), 0),
      copier(api, std::move(copy_queue).value(), 0);
  std::vector<float> sent(kRows * kColumns), got(kRows * kColumns);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<float>(i + 1);
  const RowsAt there{source->get(), kColumns}, here{target->get(), kColumns};
  const Block block{1, 2, 100, 300};
  writer.write(there.buffer, 0, sent.data(), sent.size() * sizeof(float));
  const EventHandle written = writer.done();
  copier.wait_for({written.get()});
  copier.copy_block(there, here, block);
  copier.read(here.buffer, 0, got.data(), got.size() * sizeof(float));
  if (writer.wait() != CL_SUCCESS || copier.wait() != CL_SUCCESS) return false;
  for (std::int64_t row = block.row; row < block.row + block.rows; ++row) {
    const auto first = sent.begin() + row * kColumns + block.column;
    if (!std::equal(first, first + block.columns, got.begin() + (first - sent.begin()))) {
      return false;
    }
  }
  return true;
}

bool all_copies_arrive(const std::vector<std::shared_ptr<DeviceContext>>& device_contexts) {
  for (std::size_t from = 0; from < device_contexts.size(); ++from) {
    for (std::size_t to = 0; to < device_contexts.size(); ++to) {
      if (from != to && !copies_arrive(*device_contexts[from], *device_contexts[to])) return false;
    }
  }
  return true;
}

}  // namespace

Result<std::shared_ptr<DeviceContext>> DeviceContext::open(const Device& d) {
  return open_in(d, {d.id});
}

Result<std::shared_ptr<DeviceContext>> DeviceContext::open_in(const Device& d,
                                                              const Together& together) {
  const std::lock_guard lock(g_mutex);
  std::weak_ptr<DeviceContext>& entry = g_open[{d.api, {together, d.id}}];
  if (auto open = entry.lock()) return open;
  HOLDFAST_TRY(auto context, context_of(d, together));
  std::shared_ptr<DeviceContext> device_context(new DeviceContext(d, std::move(context)));
  entry = device_context;
  return device_context;
}

Result<DeviceContexts> DeviceContexts::open(const std::vector<Device>& devices) {
  Together together;
  bool one_driver = true;
  for (const Device& d : devices) {
    one_driver = one_driver && d.platform_id == devices[0].platform_id;
    if (std::find(together.begin(), together.end(), d.id) == together.end()) {
      together.push_back(d.id);
    }
  }
  DeviceContexts device_contexts;
  for (const Device& d : devices) {
    auto device_context =
        one_driver ? DeviceContext::open_in(d, together) : Error{Errc::kUnsupported, ""};
    if (!device_context) break;
    device_contexts.all.push_back(std::move(device_context).value());
  }
  device_contexts.peers =
      device_contexts.all.size() == devices.size() && all_copies_arrive(device_contexts.all);
  if (device_contexts.peers) return device_contexts;
  device_contexts.all.clear();
  for (const Device& d : devices) {
    HOLDFAST_TRY(auto device_context, DeviceContext::open(d));
    device_contexts.all.push_back(std::move(device_context));
  }
  return device_contexts;
}

const Probe& DeviceContext::probed(const std::string& cache) {
  std::call_once(probing_, [&] { probed_ = probe_in(device_, context(), programs_, cache); });
  return probed_;
}

Result<QueueHandle> DeviceContext::make_queue() const {
  cl_int status = CL_SUCCESS;
  QueueHandle queue(*device_.api,
                    device_.api->clCreateCommandQueue(context(), device_.id, 0, &status));
  if (status == CL_SUCCESS) return queue;
  return Error{Errc::kModelFailed, "open a queue on " + device_.name + ": " + status_text(status)};
}

}  // namespace holdfast::opencl
