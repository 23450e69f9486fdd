#include "control/daemon/outgoing_copy.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "control/core/admission.h"
#include "shared/base/json_text.h"
#include "shared/base/log.h"

namespace holdfast::daemon {
namespace {

using nlohmann::json;

constexpr std::size_t kIdMin = 16;  // hard to guess for whoever made it
constexpr std::size_t kIdMax = 64;

std::int64_t integer_of(const json& args, const char* name) {
  const auto it = args.find(name);
  return it != args.end() && it->is_number_integer() ? it->get<std::int64_t>() : -1;
}

bool is_id(std::string_view id) {
  return id.size() >= kIdMin && id.size() <= kIdMax &&
         std::all_of(id.begin(), id.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

std::int64_t size_of(const std::string& path) {
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(path, failed);
  return failed ? 0 : static_cast<std::int64_t>(bytes);
}

}  // namespace

bool OutgoingCopy::knows(const std::string& verb) {
  return verb == "db.copy" || verb == "db.copy_range" || verb == "db.copy_end";
}

void OutgoingCopy::refuse(core::PeerId peer, std::uint64_t tag, const Error& error) {
  options_.send(peer, wire::OpResult{tag, false, core::refuse(error.code, error.what), {}, {}});
}

void OutgoingCopy::ask(core::PeerId peer, const wire::Op& op, std::int64_t free_min,
                       std::int64_t now_us) {
  const json args = op.args.empty() ? json::object() : try_parse_json<json>(op.args);
  if (!args.is_object()) {
    return refuse(peer, op.tag, {Errc::kUsage, op.verb + ": arguments are not a JSON object"});
  }
  const auto id = args.find("copy");
  if (id == args.end() || !id->is_string() || !is_id(id->get_ref<const std::string&>())) {
    return refuse(peer, op.tag,
                  {Errc::kUsage, op.verb + ": copy: expected 16 to 64 of a-z and 0-9"});
  }
  const Question question{peer,
                          op,
                          id->get<std::string>(),
                          integer_of(args, "offset"),
                          integer_of(args, "bytes"),
                          free_min,
                          now_us};
  if (op.verb == "db.copy") return copy(question);
  if (op.verb == "db.copy_range") return range(question);
  const bool ended = question.id == id_;
  if (ended) drop();
  options_.send(peer, wire::OpResult{op.tag, true, {}, json{{"ended", ended}}.dump(), {}});
}

/// Begins a copy, or tells how far it is.
void OutgoingCopy::copy(const Question& question) {
  if (question.id != id_) {
    if (const auto begun = begin(question); !begun) {
      return refuse(question.peer, question.op.tag, begun.error());
    }
  }
  questioned_us_ = question.now_us;
  if (const auto failed = std::exchange(failure_, std::nullopt)) {
    drop();
    return refuse(question.peer, question.op.tag, *failed);
  }
  tell(question);
}

Result<void> OutgoingCopy::begin(const Question& question) {
  const std::int64_t idle_us = question.now_us - questioned_us_;
  if (!id_.empty() && idle_us < kReplaceUs) {
    return Error{Errc::kConflict,
                 "db.copy: another copy is being taken; try again once it is done, or 30 s after "
                 "its reader has asked last"};
  }
  drop();
  HOLDFAST_CHECKED(check_space(question.free_min));
  HOLDFAST_TRY(backup_, store_.begin_backup(store::outgoing_path(options_.state_dir)));
  id_ = question.id;
  log::info("a copy of the database is made for an operator", {{"copy", id_}});
  return {};
}

/// kDiskFull if the copy would leave less than that.
Result<void> OutgoingCopy::check_space(std::int64_t free_min) const {
  const std::string path = options_.state_dir + "/control.db";
  const std::int64_t needed = size_of(path) + size_of(path + "-wal") + free_min;
  const std::int64_t free = store_.disk_free();
  if (free >= needed) return {};
  return Error{Errc::kDiskFull, "db.copy: the copy is made in " + options_.state_dir +
                                    " first, which wants " + std::to_string(needed) +
                                    " free bytes and has " + std::to_string(free) +
                                    "; free some, or run `holdfast db backup` on that machine with "
                                    "a FILE on another disk"};
}

void OutgoingCopy::tell(const Question& question) {
  json document = {{"state", "copying"}, {"done_bytes", 0}, {"bytes", 0}};
  if (backup_ != nullptr) {
    const store::Backup::Progress progress = backup_->progress();
    document["done_bytes"] = progress.done_bytes;
    document["bytes"] = progress.bytes;
  } else {
    const auto sha = file_->sha256();
    if (sha && !*sha) {
      const Error failed = sha->error();
      drop();
      return refuse(question.peer, question.op.tag, failed);
    }
    document = {{"state", sha ? "ready" : "hashing"},
                {"done_bytes", file_->hashed_bytes()},
                {"bytes", file_->bytes()}};
    if (sha) {
      document["sha256"] = **sha;
      document["pages"] = pages_;
      document["range_bytes"] = options_.range_bytes_max;
    }
  }
  options_.send(question.peer, wire::OpResult{question.op.tag, true, {}, document.dump(), {}});
}

void OutgoingCopy::range(const Question& question) {
  const auto no = [&](Errc code, const std::string& why) {
    refuse(question.peer, question.op.tag, {code, "db.copy_range: " + why});
  };
  if (question.id != id_) return no(Errc::kNotFound, "there is no such copy (any more)");
  if (file_ == nullptr) return no(Errc::kConflict, "the copy is not complete yet");
  questioned_us_ = question.now_us;
  if (question.offset < 0 || question.bytes <= 0 || question.bytes > options_.range_bytes_max ||
      question.offset > file_->bytes() - question.bytes) {
    return no(Errc::kUsage, "expected an offset and at most " +
                                std::to_string(options_.range_bytes_max) +
                                " bytes inside of the copy's " + std::to_string(file_->bytes()));
  }
  if (pending_ >= kRangesMax) {
    return no(Errc::kRateLimited, std::to_string(pending_) + " ranges are being read already");
  }
  ++pending_;
  file_->read({question.peer, question.op.tag, question.offset, question.bytes});
}

void OutgoingCopy::step(std::int64_t now_us) {
  if (backup_ != nullptr) copy_pages();
  if (file_ != nullptr) send_ranges();
  if (!id_.empty() && now_us - questioned_us_ > kIdleUs) {
    log::info("a copy of the database is removed: nobody reads it", {{"copy", id_}});
    drop();
  }
}

void OutgoingCopy::copy_pages() {
  const Result<bool> done = backup_->step();
  if (done && !*done) return;
  const std::string path = backup_->report().path;
  pages_ = backup_->report().pages;
  backup_.reset();
  if (!done) {
    failure_ = done.error();
    return;
  }
  auto file = OutgoingFile::open(path, options_.wake);
  if (!file) {
    failure_ = file.error();
    return;
  }
  file_ = std::move(file).value();
}

void OutgoingCopy::send_ranges() {
  for (FileRangeAnswer& answer : file_->take()) {
    --pending_;
    if (!answer.content) {
      refuse(answer.range.peer, answer.range.tag, answer.content.error());
      continue;
    }
    options_.send(answer.range.peer, wire::OpResult{answer.range.tag,
                                                    true,
                                                    {},
                                                    json{{"offset", answer.range.offset}}.dump(),
                                                    std::move(answer.content).value()});
  }
}

void OutgoingCopy::drop() {
  backup_.reset();
  file_.reset();
  failure_.reset();
  id_.clear();
  pages_ = 0;
  pending_ = 0;
}

}  // namespace holdfast::daemon
