// Program to executor: weights are placed, all sizes added up and compared with what the device has
// free, and only then is anything taken, built and uploaded.

#include "worker/backend/opencl/load.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "worker/backend/cpu/family.h"
#include "worker/backend/opencl/limits.h"
#include "worker/backend/opencl/loader.h"
#include "worker/backend/opencl/mixed.h"
#include "worker/backend/opencl/probe.h"
#include "worker/backend/opencl/rows_split.h"
#include "worker/backend/opencl/sources.h"
#include "worker/backend/opencl/split.h"

namespace holdfast::opencl {

using cpu::round_up;
using model::OpKind;

namespace {

std::optional<int> tier_of(std::string_view name) {
  const auto at = std::find(std::begin(kTiers), std::end(kTiers), name);
  if (at == std::end(kTiers)) return std::nullopt;
  return static_cast<int>(at - std::begin(kTiers));
}

Result<void> check_options(const model::Program& program, const backend::LoadOptions& options) {
  const backend::Limits& l = options.limits;
  if (l.context <= 0 || l.context > INT32_MAX || l.pages <= 0 || l.batch_tokens <= 0 ||
      l.batch_segments <= 0) {
    return refuse_load(Errc::kUsage,
                       "context, pages, batch_tokens and batch_segments must be positive");
  }
  if (!cpu::kv_type_of(l.kv_type)) {
    return refuse_load(Errc::kUnsupported,
                       "kv type " + l.kv_type + ": expected f32, f16, bf16, int8 or fp8");
  }
  if (!options.kernels.empty() && !tier_of(options.kernels)) {
    return refuse_load(Errc::kUnsupported,
                       "kernels " + options.kernels + ": expected a tier, t0, t1, t2 or t3");
  }
  const plan::ModelShape& s = program.shape;
  bool fits = !program.ops.empty() && s.head_dim > 0 && s.head_dim <= kHeadDimMost &&
              s.kv_heads > 0 && s.heads % s.kv_heads == 0 && s.rope_dims <= s.head_dim &&
              program.ropes.size() <= 2 && program.ops.front().kind == OpKind::kEmbed &&
              program.ops.back().kind == OpKind::kNormLogits;
  for (const model::Rope& rope : program.ropes) {
    fits = fits && static_cast<std::int64_t>(rope.inv_freq.size()) == s.rope_dims / 2;
  }
  if (!fits) {
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

void Loader::wish_rows(Rows& rows, std::int64_t n, std::int64_t columns, const char* what) {
  rows.stride = static_cast<std::int32_t>(columns);
  wishes_.push_back({&rows.buffer, static_cast<std::uint64_t>(n * columns) * 4, what});
}

void Loader::wish(Buffer& buffer, std::int64_t words, const char* what) {
  wishes_.push_back({&buffer, static_cast<std::uint64_t>(words) * 4, what});
}

/// Rows that products read are padded to whole spans of k, with zeros that nobody writes.
void Loader::measure_scratch() {
  const backend::Limits& l = options_.limits;
  const std::int64_t batch = l.batch_tokens, logit_rows = std::max(l.logit_rows, 1);
  const std::int64_t width = round_up(shape_.width, cpu::kSpan);
  Scratch& s = to_.scratch_;
  to_.head_pad_ = static_cast<std::int32_t>(round_up(shape_.head_dim, kLanes));
  to_.pairs_ = static_cast<std::int32_t>(shape_.rope_dims / 2);
  wish_rows(s.x, batch, width, "rows of x");
  wish_rows(s.h, std::max(batch, logit_rows), width, "rows of h");
  wish_rows(s.squares, batch, round_up((shape_.width + kLanes - 1) / kLanes, kLanes),
            "sums of squares");
  wish_rows(s.qkv, batch, (shape_.heads + 2 * shape_.kv_heads) * to_.head_pad_, "rows of q, k, v");
  wish_rows(s.a, batch, round_up(to_.all_heads_ * shape_.head_dim, cpu::kSpan),
            "rows of attention");
  const std::int64_t ff = std::max<std::int64_t>(plan::dense_ff(shape_), 1);
  wish_rows(s.f, batch, round_up(ff, cpu::kSpan), "rows of the feed-forward");
  if (shape_.dense_layers > 0 && shape_.shared_ff > 0) {
    wish_rows(s.s, batch, round_up(shape_.shared_ff, cpu::kSpan), "rows of the shared expert");
  }
  if (shape_.causal && to_.ends_) {
    wish_rows(s.wanted, logit_rows, width, "rows that want logits");
    wish_rows(s.logits, logit_rows, to_.vocab_, "rows of logits");
    wish(s.best, logit_rows, "greatest logits");
    wish_rows(s.top, logit_rows, 2 * kTopMost, "greatest logits");
  }
  wish(s.tokens, batch * 4, "tokens");
  wish(s.tables, table_words(), "page tables");
  for (std::size_t i = 0; i < program_.ropes.size(); ++i) {
    const std::int64_t tables = program_.ropes[i].query_steps.empty() ? 2 : 4;
    wish(s.turns[i], tables * l.context * to_.pairs_, "rotary tables");
  }
  measure_apart();
  if (shape_.experts > 0) measure_experts(batch, width);
  if (shape_.attention_step > 0) measure_states();
}

/// For as many rows as few sequences decode at once; long contexts have less of them, and one.
void Loader::measure_apart() {
  constexpr std::int64_t kRowsMost = 8, kFloatsMost = 2 << 20;
  const std::int64_t sides = (options_.limits.context + kSplitTokens - 1) / kSplitTokens;
  if (sides < 2) return;
  const std::int64_t row = shape_.heads * sides * (to_.head_pad_ + 2);
  const std::int64_t rows = std::clamp<std::int64_t>(kFloatsMost / row, 1, kRowsMost);
  wish(to_.scratch_.apart, rows * row, "splits of attention");
}

void Loader::measure_experts(std::int64_t batch, std::int64_t width) {
  Scratch& s = to_.scratch_;
  const std::int64_t slots = batch * shape_.experts_used;
  wish_rows(s.scores, batch, round_up(shape_.experts, kLanes), "scores of experts");
  wish_rows(s.e, slots, round_up(shape_.expert_ff, cpu::kSpan), "rows of experts");
  wish_rows(s.d, slots, width, "results of experts");
  wish(s.expert, slots, "chosen experts");
  wish(s.weight, slots, "weights of experts");
  wish(s.gate, batch, "gates");
}

std::int64_t Loader::table_words() const {
  const backend::Limits& l = options_.limits;
  const std::int64_t pages = (l.context + cpu::kPageTokens - 1) / cpu::kPageTokens;
  return l.batch_segments * pages + 2 * std::max(l.logit_rows, 1);
}

void Loader::measure_kv() {
  to_.page_bytes_ = static_cast<std::uint64_t>(shape_.kv_heads *
                                               cpu::head_page_bytes(to_.kv_type_, to_.head_pad_));
  kv_layers_ = !shape_.causal ? 1
               : shape_.attention_step > 0
                   ? static_cast<std::size_t>(plan::attention_layers(shape_))
                   : static_cast<std::size_t>(layers_);
  kv_bytes_ = 2 * kv_layers_ * to_.page_bytes_ * static_cast<std::uint64_t>(options_.limits.pages);
}

Result<void> Loader::make_kernels() {
  KernelSet& k = to_.kernels_;
  for (const DeviceOp& op : to_.ops_) {
    for (const Product& p : op.products) HF_CHECKED(make_product_kernels(p.matrix.format));
    for (const Product& p : op.others) HF_CHECKED(make_product_kernels(p.matrix.format));
    if (op.kind == OpKind::kNormQkv && are_beside(op.products)) {
      HF_CHECKED(make_beside_kernels(op.products[0].matrix.format, op.products[1].matrix.format));
    }
  }
  std::vector<WantedKernel> rows = {
      {"spread", &k.spread},      {"norm_rms", &k.norm_rms}, {"norm_layer", &k.norm_layer},
      {"gather", &k.gather},      {"best", &k.best},         {"rescale", &k.rescale},
      {"first_few", &k.first_few}};
  if (to_.ways_.records) rows.push_back({"records", &k.records});
  HF_CHECKED(make("rows", rows_source(to_.ways_), rows));
  HF_CHECKED(make("pages", pages_source(to_.kv_type_, to_.ways_),
                  {{"finish_head", &k.finish_head},
                   {"attention", &k.attention},
                   {"merge_splits", &k.merge_splits}}));
  if (shape_.attention_step > 0) {
    to_.delta_items_ =
        shape_.state_value <= kDeltaItemsMost / 2 ? kDeltaItemsMost / 2 : kDeltaItemsMost;
    HF_CHECKED(make("delta", delta_source(shape_, to_.delta_items_, to_.ways_),
                    {{"delta", &k.delta}, {"gate_heads", &k.gate_heads}}));
  }
  if (shape_.experts == 0) return {};
  return make("experts", experts_source(to_.ways_),
              {{"choose_experts", &k.choose_experts},
               {"open_gate", &k.open_gate},
               {"add_slots", &k.add_slots}});
}

Result<void> Loader::make_product_kernels(cpu::Format format) {
  ProductKernels& k = to_.kernels_.product[static_cast<std::size_t>(format)];
  if (k.embed.get() != nullptr) return {};
  std::vector<WantedKernel> wanted = {{"embed", &k.embed}};
  if (to_.ways_.tiles) wanted.push_back({"tile", &k.tile});
  const std::span<const int> shared = rows_shared(to_.ways_, format, format);
  for (std::size_t i = 0; i < shared.size(); ++i) {
    wanted.push_back({"one_" + std::to_string(shared[i]), &k.one[i]});
    wanted.push_back({"pair_" + std::to_string(shared[i]), &k.pair[i]});
  }
  return make("product " + std::to_string(static_cast<int>(format)),
              product_source(format, to_.ways_), wanted);
}

/// Of two formats in one launch: queries and keys of one and values of another, as in Q4_K_M.
Result<void> Loader::make_beside_kernels(cpu::Format first, cpu::Format second) {
  const auto [at, fresh] = to_.kernels_.beside.try_emplace({first, second});
  if (!fresh) return {};
  std::vector<WantedKernel> wanted;
  const std::span<const int> shared = rows_shared(to_.ways_, first, second);
  for (std::size_t i = 0; i < shared.size(); ++i) {
    wanted.push_back({"beside_" + std::to_string(shared[i]), &at->second[i]});
  }
  return make("products " + std::to_string(static_cast<int>(first)) + " and " +
                  std::to_string(static_cast<int>(second)),
              beside_source(first, second, to_.ways_), wanted);
}

Result<void> Loader::make(const std::string& what, const std::string& source,
                          const std::vector<WantedKernel>& kernels) {
  Programs& programs = to_.station_->programs();
  HF_TRY(const cl_program program, programs.get(what, source, options_.cache_dir));
  for (const WantedKernel& wanted : kernels) {
    HF_TRY(*wanted.to, programs.kernel(program, wanted.name.c_str()));
  }
  return {};
}

Result<void> Loader::take_memory() {
  DeviceMemory& memory = to_.station_->memory();
  const cl_command_queue queue = to_.queue_.get();
  for (const Wish& wish : wishes_) {
    HF_TRY(*wish.to, memory.take(queue, wish.bytes, wish.what));
    to_.memory_.scratch += wish.to->bytes();
  }
  for (std::size_t i = 0; i < 2 * kv_layers_; ++i) {
    std::vector<Buffer>& pages = i % 2 == 0 ? to_.keys_ : to_.values_;
    HF_TRY(Buffer buffer, memory.take(queue, kv_bytes_ / (2 * kv_layers_), "KV pages"));
    to_.memory_.kv += buffer.bytes();
    pages.push_back(std::move(buffer));
  }
  to_.memory_.weights = to_.weights_.bytes();
  to_.memory_.on_device = true;
  return to_.weights_.upload(*to_.station_, to_.queue_, options_.threads, options_.progress);
}

Result<void> Loader::fill_turns() {
  for (std::size_t i = 0; i < program_.ropes.size(); ++i) {
    const model::Rope& rope = program_.ropes[i];
    const bool far = !rope.inv_freq_long.empty() && options_.limits.context > rope.long_from;
    const std::vector<double>& frequency = far ? rope.inv_freq_long : rope.inv_freq;
    std::vector<float> table = turn_table(frequency, [&](std::int64_t) { return rope.magnitude; });
    if (!rope.query_steps.empty()) {
      const std::vector<float> queries =
          turn_table(frequency, [&](std::int64_t p) { return rope.magnitude * rope.of_query(p); });
      table.insert(table.end(), queries.begin(), queries.end());
    }
    to_.queue_.write(to_.scratch_.turns[i].get(), 0, table.data(), table.size() * sizeof(float));
  }
  const cl_int status = to_.queue_.wait();
  if (status == CL_SUCCESS) return {};
  return refuse_load(Errc::kModelFailed,
                     "fill " + to_.station_->device().name + ": " + status_text(status));
}

/// cos [context][pairs], then sin.
std::vector<float> Loader::turn_table(
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
  to_.tokens_.reserve(batch);
  to_.tables_.reserve(static_cast<std::size_t>(table_words()));
  to_.runs_.reserve(static_cast<std::size_t>(l.batch_segments));
  to_.few_.reserve(static_cast<std::size_t>(std::max(l.logit_rows, 1)));
  to_.best_.resize(static_cast<std::size_t>(std::max(l.logit_rows, 1)));
  to_.top_.resize(to_.best_.size() * kTopMost);
  if (part_ != nullptr) return;  // results are put together elsewhere
  if (shape_.causal && to_.ends_) {
    to_.logits_.resize(static_cast<std::size_t>(std::max(l.logit_rows, 1)) *
                       static_cast<std::size_t>(shape_.vocab));
  }
  to_.hidden_.resize(batch * static_cast<std::size_t>(to_.scratch_.x.stride));
}

Result<void> Loader::load() {
  HF_TRY(QueueHandle queue, to_.station_->make_queue());
  to_.queue_ = Queue(*to_.station_->device().api, std::move(queue),
                     static_cast<std::size_t>(shape_.layers) + 4);
  HF_CHECKED(place_all());
  HF_CHECKED(to_.station_->memory().check_room(to_.bytes_wanted_, "the model"));
  HF_CHECKED(make_kernels());
  HF_CHECKED(take_memory());
  HF_CHECKED(fill_turns());
  reserve_host();
  return {};
}

Result<void> Loader::place_all() {
  count_layers();
  for (const model::Op& op : program_.ops) HF_CHECKED(place(op));
  link();
  measure_scratch();
  measure_kv();
  to_.bytes_wanted_ = to_.weights_.bytes() + kv_bytes_;
  for (const Wish& wish : wishes_) to_.bytes_wanted_ += wish.bytes;
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
  to_.ends_ = program_.ops.back().kind == OpKind::kNormLogits;
  to_.for_all_ = model::operations_for_all(program_);
  to_.all_heads_ = part_ != nullptr ? part_->all_heads : shape_.heads;
  to_.vocab_ = static_cast<std::int32_t>(part_ != nullptr ? part_->columns.back().n : shape_.vocab);
}

Result<std::unique_ptr<OpenclExecutor>> Loader::open(std::shared_ptr<Station> station,
                                                     const model::Program& program,
                                                     const backend::LoadOptions& options,
                                                     cpu::KvType kv_type) {
  std::unique_ptr<OpenclExecutor> executor(
      new OpenclExecutor(std::move(station), program, options, kv_type));
  HF_CHECKED(Loader(program, nullptr, options, *executor).load());
  return executor;
}

Result<std::unique_ptr<OpenclExecutor>> Loader::open(std::shared_ptr<Station> station,
                                                     const RowsPart& part,
                                                     const backend::LoadOptions& options,
                                                     cpu::KvType kv_type) {
  std::unique_ptr<OpenclExecutor> executor(
      new OpenclExecutor(std::move(station), part.program, options, kv_type));
  HF_CHECKED(Loader(part.program, &part, options, *executor).load());
  return executor;
}

Result<std::uint64_t> Loader::measure(std::shared_ptr<Station> station,
                                      const model::Program& program,
                                      const backend::LoadOptions& options, cpu::KvType kv_type) {
  OpenclExecutor executor(std::move(station), program, options, kv_type);
  HF_CHECKED(Loader(program, nullptr, options, executor).place_all());
  return executor.bytes_wanted_;
}

OpenclExecutor::OpenclExecutor(std::shared_ptr<Station> station, const model::Program& program,
                               const backend::LoadOptions& options, cpu::KvType kv_type)
    : station_(std::move(station)),
      shape_(program.shape),
      limits_(options.limits),
      kv_type_(kv_type),
      expert_norm_(program.details.expert_weights_norm),
      expert_scale_(static_cast<float>(program.details.expert_weights_scale)),
      query_turns_(!program.ropes.empty() && !program.ropes[0].query_steps.empty()),
      router_(program.details.router),
      groups_(static_cast<std::int32_t>(program.details.expert_groups)),
      groups_used_(static_cast<std::int32_t>(program.details.expert_groups_used)),
      weights_(station_->device().max_alloc) {
  const Probe& found = station_->probed(options.cache_dir);
  ways_ = ways_of(station_->device(), found, tier_of(options.kernels).value_or(found.tier));
}

/// "opencl/t0.DEVICE.DRIVER/r1": another driver may round otherwise, so it is part of the class. Of
/// the tiers the lowest one with the same bits.
std::string OpenclExecutor::class_prefix() const {
  std::string machine = station_->device().name + "." + station_->device().driver;
  for (char& c : machine) {
    if (c == '/' || c == ' ') c = '_';
  }
  return std::string("opencl/") + kTiers[ways_.records ? 2 : 0] + "." + machine + "/" + kKernelsRev;
}

Result<std::unique_ptr<backend::Executor>> load_with(const Api& api, std::string_view device,
                                                     const model::Program& program,
                                                     const backend::LoadOptions& options) {
  HF_CHECKED(check_options(program, options));
  HF_TRY(const std::vector<Device> devices, pick_devices(api, device));
  const DeviceName name = *parse_device_name(device);
  if (program.shape.attention_step > 0 && (name.and_cpu || name.by_rows || devices.size() > 1)) {
    return refuse_load(Errc::kUnsupported, std::string(device) +
                                               ": a model with recurrent layers is not divided; "
                                               "expected one device, or cpu");
  }
  const cpu::KvType kv_type = *cpu::kv_type_of(options.limits.kv_type);
  if (name.and_cpu) return load_mixed(devices, program, options, kv_type);
  if (name.by_rows) return load_rows_split(devices, program, options, kv_type);
  if (devices.size() > 1) return load_split(devices, program, options, kv_type);
  HF_TRY(auto station, Station::open(devices[0]));
  HF_TRY(auto executor, Loader::open(std::move(station), program, options, kv_type));
  return std::unique_ptr<backend::Executor>(std::move(executor));
}

Result<std::unique_ptr<backend::Executor>> load(std::string_view device,
                                                const model::Program& program,
                                                const backend::LoadOptions& options) {
  HF_TRY(const Api* api, system_api());
  return load_with(*api, device, program, options);
}

}  // namespace holdfast::opencl
