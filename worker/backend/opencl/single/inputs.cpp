// Inputs of a step: its tokens, page tables and runs of recurrent layers. They lie in one device
// buffer, so that one write from pinned memory brings them; the host does not wait for it.

#include <algorithm>
#include <cstring>

#include "worker/backend/opencl/single/executor.h"
#include "worker/backend/opencl/single/loader.h"

namespace holdfast::opencl {
namespace {

constexpr std::uint64_t kHostAlignment = 64;  // a cache line

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t to) {
  return (bytes + to - 1) / to * to;
}

/// Bytes; a part of a buffer must begin at a multiple of it.
std::uint64_t alignment_of(const Device& device) {
  constexpr cl_uint kMostBits = 32768;  // the standard's types need no more than 1024
  cl_uint bits = 0;
  if (device.api->clGetDeviceInfo(device.id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits,
                                  nullptr) != CL_SUCCESS) {
    bits = kMostBits;
  }
  return std::max<std::uint64_t>(bits / 8, kHostAlignment);
}

Result<MemoryHandle> part_of(const Device& device, const Buffer& buffer, std::uint64_t at,
                             std::uint64_t bytes) {
  const cl_buffer_region region{at, bytes};
  cl_int status = CL_SUCCESS;
  MemoryHandle part(*device.api,
                    device.api->clCreateSubBuffer(buffer.get(), CL_MEM_READ_WRITE,
                                                  CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
  if (status == CL_SUCCESS) return part;
  return refuse_load(Errc::kModelFailed, "divide the buffer of tokens and page tables on " +
                                             device.name + ": " + status_text(status));
}

}  // namespace

void Loader::measure_inputs() {
  const backend::Limits& l = options_.limits;
  const std::uint64_t alignment = alignment_of(model_.device_context->device());
  const bool states = model_.shape.attention_step > 0;
  const auto segments = static_cast<std::uint64_t>(l.batch_segments);
  InputsAt& at = model_.inputs_at;
  at.tokens = states ? rounded(segments * sizeof(StateRun), alignment) : 0;
  at.tables =
      at.tokens + rounded(static_cast<std::uint64_t>(l.batch_tokens) * sizeof(Token), alignment);
  at.end = at.tables + static_cast<std::uint64_t>(table_words()) * sizeof(std::int32_t);
  reserve_scratch(model_.scratch.inputs, static_cast<std::int64_t>(at.end / sizeof(std::int32_t)),
                  "tokens and page tables");
}

Result<void> Loader::divide_inputs() {
  const Device& device = model_.device_context->device();
  const InputsAt& at = model_.inputs_at;
  Scratch& s = model_.scratch;
  if (at.tokens > 0) {
    HOLDFAST_TRY(s.runs, part_of(device, s.inputs, 0, at.tokens));
  }
  HOLDFAST_TRY(s.tokens, part_of(device, s.inputs, at.tokens, at.tables - at.tokens));
  HOLDFAST_TRY(s.tables, part_of(device, s.inputs, at.tables, at.end - at.tables));
  return {};
}

/// Pinned memory for the inputs, and for the results that this executor itself reads.
Result<void> Loader::take_host() {
  const auto rows = static_cast<std::uint64_t>(std::max(options_.limits.logit_rows, 1));
  const bool whole = part_ == nullptr && model_.gives_logits();  // else a group reads them
  const std::uint64_t logits_at = rounded(model_.inputs_at.end, kHostAlignment);
  const std::uint64_t logits = whole ? rows * static_cast<std::uint64_t>(model_.shape.vocab) : 0;
  const std::uint64_t top_at = rounded(logits_at + logits * sizeof(float), kHostAlignment);
  const std::uint64_t greatest_at = top_at + rows * kTopMost * sizeof(backend::Ranked);
  const std::uint64_t bytes = greatest_at + rows * sizeof(std::int32_t);
  HOLDFAST_TRY(to_.host_, to_.take_staging(bytes, "inputs and results of a step"));
  std::uint8_t* const data = to_.host_.data();
  std::memset(data, 0, bytes);
  to_.logits_ = {reinterpret_cast<float*>(data + logits_at), logits};
  to_.top_ = {reinterpret_cast<backend::Ranked*>(data + top_at), rows * kTopMost};
  to_.greatest_ = {reinterpret_cast<std::int32_t*>(data + greatest_at), rows};
  return {};
}

/// Enqueues the write of the batch's inputs. They stay in pinned memory until the step has ended;
/// a step that has not is waited for.
void OpenclExecutor::send_inputs() {
  if (model_.queue.busy()) model_.queue.finish();
  std::uint8_t* const to = host_.data();
  const std::uint64_t tables_bytes = batch_.tables.size() * sizeof(std::int32_t);
  if (!batch_.runs.empty())
    std::memcpy(to, batch_.runs.data(), batch_.runs.size() * sizeof(StateRun));
  std::memcpy(to + model_.inputs_at.tokens, batch_.tokens.data(),
              batch_.tokens.size() * sizeof(Token));
  std::memcpy(to + model_.inputs_at.tables, batch_.tables.data(), tables_bytes);
  model_.queue.write_later(model_.scratch.inputs.get(), 0, to,
                           model_.inputs_at.tables + tables_bytes);
}

/// The same for the batch rows of logits alone, which end the tables.
void OpenclExecutor::send_logit_rows() {
  if (model_.queue.busy()) model_.queue.finish();
  const std::uint64_t first =
      static_cast<std::uint64_t>(batch_.logit_rows_at) * sizeof(std::int32_t);
  const std::uint64_t at = model_.inputs_at.tables + first;
  const std::uint64_t bytes = batch_.tables.size() * sizeof(std::int32_t) - first;
  std::memcpy(host_.data() + at, batch_.tables.data() + batch_.logit_rows_at, bytes);
  model_.queue.write_later(model_.scratch.inputs.get(), at, host_.data() + at, bytes);
}

}  // namespace holdfast::opencl
