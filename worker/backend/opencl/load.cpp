// From program to executor: all memory is planned, its sum is compared with what the device has
// free, and only then is anything allocated, built and uploaded.

#include "worker/backend/opencl/load.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "worker/backend/cpu/family.h"
#include "worker/backend/opencl/device/limits.h"
#include "worker/backend/opencl/device/probe.h"
#include "worker/backend/opencl/device/sources.h"
#include "worker/backend/opencl/mixed/mixed.h"
#include "worker/backend/opencl/pipeline/pipeline_parallel.h"
#include "worker/backend/opencl/single/loader.h"
#include "worker/backend/opencl/tensor/tensor_parallel.h"

namespace holdfast::opencl {

using cpu::round_up;
using model::OpKind;

namespace {

std::optional<int> tier_of(std::string_view name) {
  const auto at = std::find(std::begin(kTiers), std::end(kTiers), name);
  if (at == std::end(kTiers)) return std::nullopt;
  return static_cast<int>(at - std::begin(kTiers));
}

/// The kernels of vectors alone: products by CLBlast.
constexpr const char* kClblastKernels = "clblast";

bool are_positive(const backend::Limits& l) {
  return l.context > 0 && l.context <= INT32_MAX && l.pages > 0 && l.batch_tokens > 0 &&
         l.batch_segments > 0;
}

/// True if the kernels can compute the program's heads and rotary pairs.
bool has_heads_that_fit(const model::Program& program) {
  const plan::ModelShape& s = program.shape;
  if (program.ops.empty() || program.ops.front().kind != OpKind::kEmbed ||
      program.ops.back().kind != OpKind::kNormLogits) {
    return false;
  }
  const bool heads = s.head_dim > 0 && s.head_dim <= kHeadDimMost && s.kv_heads > 0 &&
                     s.heads % s.kv_heads == 0 && s.rope_dims <= s.head_dim;
  return heads && program.ropes.size() <= 2 &&
         std::all_of(program.ropes.begin(), program.ropes.end(), [&](const model::Rope& rope) {
           return static_cast<std::int64_t>(rope.inv_freq.size()) == s.rope_dims / 2;
         });
}

Result<void> check_options(const model::Program& program, const backend::LoadOptions& options) {
  const backend::Limits& l = options.limits;
  if (!are_positive(l)) {
    return refuse_load(Errc::kUsage,
                       "context, pages, batch_tokens and batch_segments must be positive");
  }
  if (!cpu::kv_type_of(l.kv_type)) {
    return refuse_load(Errc::kUnsupported,
                       "kv type " + l.kv_type + ": expected f32, f16, bf16, int8 or fp8");
  }
  if (options.kernels == kClblastKernels) {
    const auto version = clblast_version();
    if (!version) return refuse_load(version.error().code, version.error().what);
  } else if (!options.kernels.empty() && !tier_of(options.kernels)) {
    return refuse_load(Errc::kUnsupported, "kernels " + options.kernels +
                                               ": expected a tier, t0, t1, t2 or t3, or clblast "
                                               "for vectors alone");
  }
  const plan::ModelShape& s = program.shape;
  if (!has_heads_that_fit(program)) {
    return refuse_load(Errc::kUnsupported, "the program's heads or rotary pairs do not fit");
  }
  if (s.state_value <= kDeltaItemsMost && s.state_key <= kStateKeyMost) return {};
  return refuse_load(Errc::kUnsupported,
                     "heads of recurrent layers have keys of " + std::to_string(s.state_key) +
                         " and values of " + std::to_string(s.state_value) + ", expected at most " +
                         std::to_string(kStateKeyMost) + " and " + std::to_string(kDeltaItemsMost) +
                         "; load it on the cpu");
}

}  // namespace

void Loader::reserve_scratch_rows(Rows& rows, std::int64_t n, std::int64_t columns,
                                  const char* what) {
  rows.stride = static_cast<std::int32_t>(columns);
  scratch_buffers_.push_back({&rows.buffer, static_cast<std::uint64_t>(n * columns) * 4, what});
}

void Loader::reserve_scratch(Buffer& buffer, std::int64_t words, const char* what) {
  scratch_buffers_.push_back({&buffer, static_cast<std::uint64_t>(words) * 4, what});
}

/// Rows that products read are padded to whole spans of k, with zeros that nothing overwrites.
void Loader::measure_scratch() {
  const backend::Limits& l = options_.limits;
  const std::int64_t batch = l.batch_tokens, logit_rows = std::max(l.logit_rows, 1);
  const std::int64_t width = round_up(model_.shape.width, cpu::kSpan);
  Scratch& s = model_.scratch;
  model_.head_pad = static_cast<std::int32_t>(round_up(model_.shape.head_dim, kLanes));
  model_.pairs = static_cast<std::int32_t>(model_.shape.rope_dims / 2);
  reserve_scratch_rows(s.x, batch, width, "rows of x");
  reserve_scratch_rows(s.h, std::max(batch, logit_rows), width, "rows of h");
  reserve_scratch_rows(s.squares, batch,
                       round_up((model_.shape.width + kLanes - 1) / kLanes, kLanes),
                       "sums of squares");
  reserve_scratch_rows(s.qkv, batch,
                       (model_.shape.heads + 2 * model_.shape.kv_heads) * model_.head_pad,
                       "rows of q, k, v");
  reserve_scratch_rows(s.a, batch, round_up(model_.all_heads * model_.shape.head_dim, cpu::kSpan),
                       "rows of attention");
  const std::int64_t ff = std::max<std::int64_t>(plan::dense_ff(model_.shape), 1);
  reserve_scratch_rows(s.f, batch, round_up(ff, cpu::kSpan), "rows of the feed-forward");
  if (model_.shape.dense_layers > 0 && model_.shape.shared_ff > 0) {
    reserve_scratch_rows(s.s, batch, round_up(model_.shape.shared_ff, cpu::kSpan),
                         "rows of the shared expert");
  }
  if (model_.gives_logits()) {
    reserve_scratch_rows(s.logit_inputs, logit_rows, width, "rows that want logits");
    reserve_scratch_rows(s.logits, logit_rows, model_.vocab, "rows of logits");
    reserve_scratch(s.best, logit_rows * (1 + 2 * kBestParts), "greatest logits");
    reserve_scratch_rows(s.top, logit_rows, 2 * kTopMost, "greatest logits");
  }
  measure_inputs();
  for (std::size_t i = 0; i < program_.ropes.size(); ++i) {
    const std::int64_t tables = program_.ropes[i].query_steps.empty() ? 2 : 4;
    reserve_scratch(s.rope_table[i], tables * l.context * model_.pairs, "rotary tables");
  }
  measure_attention_partials();
  if (model_.shape.experts > 0) measure_experts(batch, width);
  if (model_.shape.attention_step > 0) measure_states();
}

/// Results of splits for as many rows as a few sequences decode at once; long contexts have memory
/// for fewer rows, but for one at least.
void Loader::measure_attention_partials() {
  constexpr std::int64_t kRowsMost = 8, kFloatsMost = 2 << 20;
  const std::int64_t sides = (options_.limits.context + kSplitTokens - 1) / kSplitTokens;
  if (sides < 2) return;
  const std::int64_t row = model_.shape.heads * sides * (model_.head_pad + 2);
  const std::int64_t rows = std::clamp<std::int64_t>(kFloatsMost / row, 1, kRowsMost);
  reserve_scratch(model_.scratch.attention_partials, rows * row, "splits of attention");
}

void Loader::measure_experts(std::int64_t batch, std::int64_t width) {
  Scratch& s = model_.scratch;
  const std::int64_t slots = batch * model_.shape.experts_used;
  reserve_scratch_rows(s.scores, batch, round_up(model_.shape.experts, kLanes),
                       "scores of experts");
  reserve_scratch_rows(s.e, slots, round_up(model_.shape.expert_ff, cpu::kSpan), "rows of experts");
  reserve_scratch_rows(s.d, slots, width, "results of experts");
  reserve_scratch(s.expert, slots, "chosen experts");
  reserve_scratch(s.weight, slots, "weights of experts");
  reserve_scratch(s.gate, batch, "gates");
}

std::int64_t Loader::table_words() const {
  const backend::Limits& l = options_.limits;
  const std::int64_t pages = (l.context + kPageTokens - 1) / kPageTokens;
  return l.batch_segments * pages + 2 * std::max(l.logit_rows, 1);
}

void Loader::measure_kv() {
  model_.page_bytes = static_cast<std::uint64_t>(
      model_.shape.kv_heads * cpu::head_page_bytes(model_.kv_type, model_.head_pad));
  kv_layers_ = !model_.shape.causal ? 1
               : model_.shape.attention_step > 0
                   ? static_cast<std::size_t>(plan::attention_layers(model_.shape))
                   : static_cast<std::size_t>(layers_);
  kv_bytes_ =
      2 * kv_layers_ * model_.page_bytes * static_cast<std::uint64_t>(options_.limits.pages);
}

Result<void> Loader::make_kernels() {
  KernelSet& k = model_.kernels;
  for (const DeviceOp& op : model_.ops) {
    for (const Product& p : op.products) HOLDFAST_CHECKED(make_product_kernels(p.matrix.format));
    for (const Product& p : op.others) HOLDFAST_CHECKED(make_product_kernels(p.matrix.format));
    if (op.kind == OpKind::kNormQkv && can_concat(op.products)) {
      HOLDFAST_CHECKED(
          make_concat_kernels(op.products[0].matrix.format, op.products[1].matrix.format));
    }
  }
  std::vector<RequiredKernel> rows = {{"spread", &k.spread},         {"norm_rms", &k.norm_rms},
                                      {"norm_layer", &k.norm_layer}, {"gather", &k.gather},
                                      {"best_parts", &k.best_parts}, {"best", &k.best},
                                      {"rescale", &k.rescale},       {"top_k", &k.top_k}};
  if (model_.capabilities.int8_rows) rows.push_back({"int8_rows", &k.int8_rows});
  HOLDFAST_CHECKED(make("rows", rows_source(model_.capabilities), rows));
  HOLDFAST_CHECKED(make("pages", pages_source(model_.kv_type, model_.capabilities),
                        {{"finish_head", &k.finish_head},
                         {"attention", &k.attention},
                         {"merge_splits", &k.merge_splits}}));
  if (model_.shape.attention_step > 0) {
    model_.states.items =
        model_.shape.state_value <= kDeltaItemsMost / 2 ? kDeltaItemsMost / 2 : kDeltaItemsMost;
    HOLDFAST_CHECKED(make("delta",
                          delta_source(model_.shape, model_.states.items, model_.capabilities),
                          {{"delta", &k.delta}, {"gate_heads", &k.gate_heads}}));
  }
  if (model_.shape.experts == 0) return {};
  return make("experts", experts_source(model_.capabilities),
              {{"choose_experts", &k.choose_experts},
               {"open_gate", &k.open_gate},
               {"add_slots", &k.add_slots}});
}

Result<void> Loader::make_product_kernels(cpu::Format format) {
  ProductKernels& k = model_.kernels.product[static_cast<std::size_t>(format)];
  if (k.embed.get() != nullptr) return {};
  std::vector<RequiredKernel> required = {{"embed", &k.embed}};
  if (model_.capabilities.tiles) required.push_back({"tile", &k.tile});
  const std::span<const int> shared = rows_shared(model_.capabilities, format, format);
  for (std::size_t i = 0; i < shared.size(); ++i) {
    required.push_back({"one_" + std::to_string(shared[i]), &k.one[i]});
    required.push_back({"pair_" + std::to_string(shared[i]), &k.pair[i]});
  }
  return make("product " + std::to_string(static_cast<int>(format)),
              product_source(format, model_.capabilities), required);
}

/// Kernels of two formats in one launch: queries and keys of one and values of another, as in
/// Q4_K_M.
Result<void> Loader::make_concat_kernels(cpu::Format first, cpu::Format second) {
  const auto [at, fresh] = model_.kernels.concat.try_emplace({first, second});
  if (!fresh) return {};
  std::vector<RequiredKernel> required;
  const std::span<const int> shared = rows_shared(model_.capabilities, first, second);
  for (std::size_t i = 0; i < shared.size(); ++i) {
    required.push_back({"concat_" + std::to_string(shared[i]), &at->second[i]});
  }
  return make("products " + std::to_string(static_cast<int>(first)) + " and " +
                  std::to_string(static_cast<int>(second)),
              concat_source(first, second, model_.capabilities), required);
}

Result<void> Loader::make(const std::string& what, const std::string& source,
                          const std::vector<RequiredKernel>& kernels) {
  Programs& programs = model_.device_context->programs();
  HOLDFAST_TRY(const cl_program program, programs.get(what, source, options_.cache_dir));
  for (const RequiredKernel& required : kernels) {
    HOLDFAST_TRY(*required.to, programs.kernel(program, required.name.c_str()));
  }
  return {};
}

Result<void> Loader::take_memory() {
  DeviceMemory& memory = model_.device_context->memory();
  const cl_command_queue queue = model_.queue.get();
  for (const ScratchBuffer& buffer : scratch_buffers_) {
    HOLDFAST_TRY(*buffer.to, memory.take(queue, buffer.bytes, buffer.what));
    model_.memory.scratch += buffer.to->bytes();
  }
  for (std::size_t i = 0; i < 2 * kv_layers_; ++i) {
    std::vector<Buffer>& pages = i % 2 == 0 ? model_.keys : model_.values;
    HOLDFAST_TRY(Buffer buffer, memory.take(queue, kv_bytes_ / (2 * kv_layers_), "KV pages"));
    model_.memory.kv += buffer.bytes();
    pages.push_back(std::move(buffer));
  }
  model_.memory.weights = model_.weights.bytes();
  model_.memory.on_device = true;
  return model_.weights.upload(*model_.device_context, model_.queue, options_.threads,
                               options_.progress);
}

Result<void> Loader::fill_rope_tables() {
  for (std::size_t i = 0; i < program_.ropes.size(); ++i) {
    const model::Rope& rope = program_.ropes[i];
    const bool far = !rope.inv_freq_long.empty() && options_.limits.context > rope.long_from;
    const std::vector<double>& frequency = far ? rope.inv_freq_long : rope.inv_freq;
    std::vector<float> table =
        make_rope_table(frequency, [&](std::int64_t) { return rope.magnitude; });
    if (!rope.query_steps.empty()) {
      const std::vector<float> queries = make_rope_table(
          frequency, [&](std::int64_t p) { return rope.magnitude * rope.of_query(p); });
      table.insert(table.end(), queries.begin(), queries.end());
    }
    model_.queue.write(model_.scratch.rope_table[i].get(), 0, table.data(),
                       table.size() * sizeof(float));
  }
  const cl_int status = model_.queue.wait();
  if (status == CL_SUCCESS) return {};
  return refuse_load(Errc::kModelFailed,
                     "fill " + model_.device_context->device().name + ": " + status_text(status));
}

/// A table cos [context][pairs], then sin.
std::vector<float> Loader::make_rope_table(
    const std::vector<double>& frequency,
    const std::function<double(std::int64_t)>& magnitude_of) const {
  const auto n = static_cast<std::size_t>(options_.limits.context) * frequency.size();
  std::vector<float> table(2 * n);
  for (std::size_t at = 0; at < n; ++at) {
    const std::size_t position = at / frequency.size();
    const double angle = static_cast<double>(position) * frequency[at % frequency.size()];
    const double magnitude = magnitude_of(static_cast<std::int64_t>(position));
    table[at] = static_cast<float>(std::cos(angle) * magnitude);
    table[n + at] = static_cast<float>(std::sin(angle) * magnitude);
  }
  return table;
}

void Loader::reserve_host() {
  const backend::Limits& l = options_.limits;
  const auto batch = static_cast<std::size_t>(l.batch_tokens);
  to_.batch_.tokens.reserve(batch);
  to_.batch_.tables.reserve(static_cast<std::size_t>(table_words()));
  to_.batch_.runs.reserve(static_cast<std::size_t>(l.batch_segments));
  to_.batch_.top_counts.reserve(static_cast<std::size_t>(std::max(l.logit_rows, 1)));
  if (part_ != nullptr) return;  // results are put together by the group
  to_.hidden_.resize(batch * static_cast<std::size_t>(model_.scratch.x.stride));
}

Result<void> Loader::load() {
  HOLDFAST_TRY(QueueHandle queue, model_.device_context->make_queue());
  model_.queue = Queue(*model_.device_context->device().api, std::move(queue),
                       static_cast<std::size_t>(model_.shape.layers) + 4);
  HOLDFAST_CHECKED(plan_memory());
  HOLDFAST_CHECKED(model_.device_context->memory().check_free(model_.bytes_required, "the model"));
  HOLDFAST_CHECKED(make_kernels());
  HOLDFAST_CHECKED(take_memory());
  HOLDFAST_CHECKED(make_dense_kernels());
  HOLDFAST_CHECKED(divide_inputs());
  HOLDFAST_CHECKED(take_host());
  HOLDFAST_CHECKED(fill_rope_tables());
  reserve_host();
  return prepare_launches();
}

Result<void> Loader::plan_memory() {
  count_layers();
  for (const model::Op& op : program_.ops) HOLDFAST_CHECKED(add_op(op));
  link();
  measure_scratch();
  HOLDFAST_CHECKED(measure_dense());
  measure_kv();
  model_.bytes_required = model_.weights.bytes() + kv_bytes_;
  for (const ScratchBuffer& buffer : scratch_buffers_) model_.bytes_required += buffer.bytes;
  return {};
}

void Loader::count_layers() {
  std::int32_t last = -1;
  for (const model::Op& op : program_.ops) {
    if (op.layer < 0) continue;
    if (last < 0) first_layer_ = op.layer;
    last = op.layer;
  }
  layers_ = last < 0 ? 1 : last - first_layer_ + 1;
  model_.ends = program_.ops.back().kind == OpKind::kNormLogits;
  model_.for_all = model::operations_for_all(program_);
  model_.all_heads = part_ != nullptr ? part_->all_heads : model_.shape.heads;
  model_.vocab =
      static_cast<std::int32_t>(part_ != nullptr ? part_->columns.back().n : model_.shape.vocab);
}

Result<std::unique_ptr<OpenclExecutor>> Loader::open(std::shared_ptr<DeviceContext> device_context,
                                                     const model::Program& program,
                                                     const backend::LoadOptions& options,
                                                     cpu::KvType kv_type) {
  std::unique_ptr<OpenclExecutor> executor(
      new OpenclExecutor(std::move(device_context), program, options, kv_type));
  HOLDFAST_CHECKED(Loader(program, nullptr, options, *executor).load());
  return executor;
}

Result<std::unique_ptr<OpenclExecutor>> Loader::open(std::shared_ptr<DeviceContext> device_context,
                                                     const RowsPart& part,
                                                     const backend::LoadOptions& options,
                                                     cpu::KvType kv_type) {
  std::unique_ptr<OpenclExecutor> executor(
      new OpenclExecutor(std::move(device_context), part.program, options, kv_type));
  HOLDFAST_CHECKED(Loader(part.program, &part, options, *executor).load());
  return executor;
}

Result<std::uint64_t> Loader::measure(std::shared_ptr<DeviceContext> device_context,
                                      const model::Program& program,
                                      const backend::LoadOptions& options, cpu::KvType kv_type) {
  OpenclExecutor executor(std::move(device_context), program, options, kv_type);
  HOLDFAST_CHECKED(Loader(program, nullptr, options, executor).plan_memory());
  return executor.model_.bytes_required;
}

DeviceModel::DeviceModel(std::shared_ptr<DeviceContext> context, const model::Program& program,
                         const backend::LoadOptions& options, cpu::KvType kv)
    : device_context(std::move(context)),
      shape(program.shape),
      limits(options.limits),
      kv_type(kv),
      experts{program.details.expert_weights_norm,
              static_cast<float>(program.details.expert_weights_scale), program.details.router,
              static_cast<std::int32_t>(program.details.expert_groups),
              static_cast<std::int32_t>(program.details.expert_groups_used)},
      has_query_rope(!program.ropes.empty() && !program.ropes[0].query_steps.empty()),
      weights(device_context->device().max_alloc) {
  const Probe& found = device_context->probed(options.cache_dir);
  dense.used = options.kernels == kClblastKernels;
  const int tier = dense.used ? std::min(found.tier, 1) : found.tier;  // rows are floats
  capabilities =
      capabilities_of(device_context->device(), found, tier_of(options.kernels).value_or(tier));
}

namespace {

/// The kernels in the class: the lowest tier with the same bits, or CLBlast with its version.
std::string kernels_name(const DeviceModel& model) {
  if (model.dense.used) return "clblast-" + clblast_version().value();
  return kTiers[model.capabilities.int8_rows ? 2 : 0];
}

/// The class, such as "opencl/t0.DEVICE.DRIVER/r1". It names the driver, because another one may
/// round differently.
std::string class_prefix_of(const DeviceModel& model) {
  const Device& device = model.device_context->device();
  std::string machine = device.name + "." + device.driver;
  for (char& c : machine) {
    if (c == '/' || c == ' ') c = '_';
  }
  return "opencl/" + kernels_name(model) + "." + machine + "/" + kKernelsRev;
}

backend::Capabilities capabilities_of(const DeviceModel& model) {
  backend::Capabilities c;
  c.class_prefix = class_prefix_of(model);
  if (model.dense.used) {
    c.no_logits =
        "its kernels (clblast) make vectors alone: the bits of text would depend on what runs next "
        "to it; load the model without --kernels clblast to generate";
    return c;
  }
  c.greatest = model.shape.causal;
  c.top_max = model.shape.causal ? kTopMost : 0;
  return c;
}

}  // namespace

OpenclExecutor::OpenclExecutor(std::shared_ptr<DeviceContext> device_context,
                               const model::Program& program, const backend::LoadOptions& options,
                               cpu::KvType kv_type)
    : model_(std::move(device_context), program, options, kv_type),
      capabilities_(capabilities_of(model_)) {}

namespace {

/// Why a load needs one device alone, and what to do; null: it may be divided.
const char* why_undivided(const model::Program& program, const backend::LoadOptions& options) {
  if (program.shape.attention_step > 0) {
    return "a model with recurrent layers is not divided; expected one device, or cpu";
  }
  if (options.kernels != kClblastKernels) return nullptr;
  return "kernels clblast run on one device; expected a name as opencl:0, or other kernels";
}

}  // namespace

std::string kernels_revision() {
  return kKernelsRev;
}

Result<std::unique_ptr<backend::Executor>> load_with(const Api& api, std::string_view device,
                                                     const model::Program& program,
                                                     const backend::LoadOptions& options) {
  HOLDFAST_CHECKED(check_options(program, options));
  HOLDFAST_TRY(const std::vector<Device> devices, select_devices(api, device));
  const DeviceName name = *parse_device_name(device);
  const bool divided = name.and_cpu || name.by_rows || devices.size() > 1;
  const char* why_whole = why_undivided(program, options);
  if (divided && why_whole != nullptr) {
    return refuse_load(Errc::kUnsupported, std::string(device) + ": " + why_whole);
  }
  const cpu::KvType kv_type = *cpu::kv_type_of(options.limits.kv_type);
  if (name.and_cpu) return load_mixed(devices, program, options, kv_type);
  if (name.by_rows) return load_tensor_parallel(devices, program, options, kv_type);
  if (devices.size() > 1) return load_pipeline_parallel(devices, program, options, kv_type);
  HOLDFAST_TRY(auto device_context, DeviceContext::open(devices[0]));
  HOLDFAST_TRY(auto executor, Loader::open(std::move(device_context), program, options, kv_type));
  return std::unique_ptr<backend::Executor>(std::move(executor));
}

Result<std::unique_ptr<backend::Executor>> load(std::string_view device,
                                                const model::Program& program,
                                                const backend::LoadOptions& options) {
  HOLDFAST_TRY(const Api* api, system_api());
  return load_with(*api, device, program, options);
}

}  // namespace holdfast::opencl
