#include "worker/backend/opencl/split.h"

#include "worker/backend/opencl/loader.h"
#include "worker/backend/opencl/rates.h"

namespace holdfast::opencl {
namespace {

// Devices stand still while the first piece comes and the last one goes: more pieces, less of that.
constexpr std::size_t kPiecesEach = 4;  // for each device

}  // namespace

LayerSplit::LayerSplit(Parts&& parts, std::vector<Staging>&& host, std::vector<std::int64_t> layers)
    : Group(std::move(parts), std::move(host), 1),
      layers_(std::move(layers)),
      pieces_(parts_[0]->limits(), kPiecesEach * parts_.size()) {
  // Where the last part holds the embedding too, because it is the output's matrix, it looks the
  // tokens up, and the first layers get its rows.
  const std::size_t last = parts_.size() - 1;
  const std::size_t before = parts_.size() > 1 ? parts_[last]->leading() : 0;
  if (before > 0) legs_.push_back({last, 0, before});
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    legs_.push_back({p, p == last ? before : 0, parts_[p]->operations().size()});
    may_wait_ = may_wait_ && parts_[p]->inbox().buffer != nullptr;
  }
}

Result<const float*> LayerSplit::forward(const std::vector<backend::Segment>& segments) {
  if (parts_.size() > 1 && may_wait_) {
    const std::vector<BatchPiece>& pieces = pieces_.cut(segments, piece_rows_);
    if (pieces.size() > 1) {
      const Result<void> ran = run_pieces(pieces);
      HF_CHECKED(settle());
      HF_CHECKED(ran);
      return parts_.back()->conclude(segments);
    }
  }
  begin(segments);
  run_legs();
  HF_CHECKED(settle());
  return parts_.back()->finish();
}

Result<void> LayerSplit::pass(const std::vector<backend::Segment>& segments, float* x,
                              std::int64_t stride) {
  begin(segments);
  const Block all{0, parts_[0]->batch_rows(), 0, parts_[0]->width()};
  parts_[0]->queue().write_block(parts_[0]->scratch().x.at(), all, x, stride);
  run_legs();
  HF_CHECKED(settle());
  OpenclExecutor& last = *parts_.back();
  last.queue().read_block(last.scratch().x.at(), all, x, stride);
  last.queue().finish();
  return settle();
}

Result<const float*> LayerSplit::more_logits(std::int32_t first, std::int32_t n) {
  return parts_.back()->more_logits(first, n);
}

void LayerSplit::run_legs() {
  for (std::size_t i = 0; i < legs_.size(); ++i) {
    if (i > 0) hand_on(legs_[i - 1].part, legs_[i].part, parts_[0]->batch_rows(), false);
    parts_[legs_[i].part]->run(legs_[i].first, legs_[i].end);
  }
}

/// In wave w leg i has piece w - i. Rows wait apart from x, which the part may still need for
/// another leg: a tied embedding's is on the last part, whose own layers come last.
Result<void> LayerSplit::run_pieces(const std::vector<BatchPiece>& pieces) {
  for (std::size_t wave = 0; wave + 1 < pieces.size() + legs_.size(); ++wave) {
    const auto has_piece = [&](std::size_t leg) {
      return leg <= wave && wave - leg < pieces.size();
    };
    for (std::size_t leg = legs_.size(); leg-- > 0;) {
      if (has_piece(leg)) HF_CHECKED(run_piece(leg, pieces[wave - leg]));
    }
    for (std::size_t leg = 0; leg + 1 < legs_.size(); ++leg) {
      if (!has_piece(leg)) continue;
      hand_on(legs_[leg].part, legs_[leg + 1].part, pieces[wave - leg].rows, true);
    }
  }
  return {};
}

Result<void> LayerSplit::run_piece(std::size_t leg, const BatchPiece& piece) {
  OpenclExecutor& part = *parts_[legs_[leg].part];
  HF_CHECKED(part.settle());
  part.begin(piece.segments);
  if (leg > 0) {
    const RowsAt waiting = part.inbox();
    part.queue().move(waiting.buffer, part.scratch().x.get(),
                      static_cast<std::uint64_t>(piece.rows) *
                          static_cast<std::uint64_t>(waiting.stride) * sizeof(float));
  }
  part.run(legs_[leg].first, legs_[leg].end);
  if (leg + 1 == legs_.size()) part.give(piece.first_logit);
  part.queue().flush();
  return {};
}

void LayerSplit::hand_on(std::size_t from, std::size_t to, std::int64_t rows, bool wait) {
  rows_.clear();
  for (const auto& part : parts_) rows_.push_back(part->scratch().x.at());
  if (wait) rows_[to] = parts_[to]->inbox();
  sends_.clear();
  // Rows that wait are moved whole, with the zeros behind them.
  const std::int64_t columns = wait ? rows_[to].stride : parts_[0]->width();
  sends_.push_back({static_cast<int>(from), static_cast<int>(to), {0, rows, 0, columns}});
  exchange_.run(rows_, sends_);
}

/// Of one device if all are alike, else with every one's and its layers.
std::string LayerSplit::class_prefix() const {
  if (alike()) return parts_[0]->class_prefix();
  std::string all = "opencl/";
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    all +=
        (i > 0 ? "+" : "") + parts_[i]->class_prefix().substr(7) + ":" + std::to_string(layers_[i]);
  }
  return all;
}

Result<std::unique_ptr<backend::Executor>> load_split(const std::vector<Device>& devices,
                                                      const model::Program& program,
                                                      const backend::LoadOptions& options,
                                                      cpu::KvType kv_type) {
  const std::int64_t layers = program.shape.layers;
  if (static_cast<std::int64_t>(devices.size()) > layers) {
    return refuse_load(Errc::kUsage, std::to_string(layers) + " layers over " +
                                         std::to_string(devices.size()) +
                                         " devices; expected a layer for each");
  }
  HF_TRY(const Stations stations, Stations::open(devices));
  const Room room(stations, program, options, kv_type, true);
  const std::vector<double> rates = relative_rates(devices, options.cache_dir);
  HF_TRY(const auto shares, room.share(layers, rates));
  if (!shares) return room.refusal();
  HF_TRY(auto split, open_layers(room, *shares, options));
  return std::unique_ptr<backend::Executor>(std::move(split));
}

Result<std::unique_ptr<LayerSplit>> open_layers(const Room& room,
                                                const std::vector<std::int64_t>& shares,
                                                const backend::LoadOptions& options) {
  Group::Parts parts;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const model::Program part = room.part(i, first, first + shares[i]);
    first += shares[i];
    HF_TRY(auto executor, Loader::open(room.stations().all[i], part,
                                       options_of_part(options, i, shares.size()), room.kv_type()));
    parts.push_back(std::move(executor));
  }
  HF_TRY(auto host,
         take_host(parts, room.stations().peers, parts.back()->scratch().x.buffer.bytes()));
  return std::make_unique<LayerSplit>(std::move(parts), std::move(host), shares);
}

}  // namespace holdfast::opencl
