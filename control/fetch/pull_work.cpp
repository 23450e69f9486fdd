#include "control/fetch/pull_work.h"

#include <algorithm>

#include "control/fetch/download.h"
#include "control/fetch/listing.h"
#include "shared/base/clock.h"
#include "shared/base/crash_point.h"
#include "shared/base/log.h"
#include "shared/base/roots.h"
#include "shared/pull/blob.h"
#include "shared/pull/source.h"

namespace holdfast::fetch {
namespace {

using pull::PullState;

constexpr std::int64_t kTriesMax = 10;  // in a row without a byte: about four minutes
constexpr std::int64_t kFirstPauseMs = 500;
constexpr std::int64_t kLastPauseMs = 60'000;
constexpr std::int64_t kSaveMs = 1'000;  // between two notes of progress

/// True for a failure that another try may not meet.
bool may_pass(Errc code) {
  return code == Errc::kUnreachable || code == Errc::kRateLimited || code == Errc::kTimeout ||
         code == Errc::kDiskFull || code == Errc::kDraining || code == Errc::kQueueFull ||
         code == Errc::kConflict;
}

/// The work on one pull.
class PullWork {
 public:
  PullWork(PullRow row, PullRows& rows, PullRows& adding, const PullWorkOptions& options)
      : row_(std::move(row)), rows_(rows), adding_(adding), options_(options) {}

  void run();

 private:
  Result<void> work();
  Result<void> resolve(Session& session);
  Result<Listing> list(Session& session) const;
  Result<void> download(Session& session);
  Result<void> download_file(Session& session, pull::PullFile& file);
  Result<void> enter(PullState state);
  void note_progress(const DownloadProgress& progress, std::int64_t before);
  bool goes_on();
  void end(const Error& error);
  void settle(PullState state);
  void clean_up();
  std::string path_of(const pull::PullFile& file) const {
    return row_.job.folder + "/" + file.path;
  }

  PullRow row_;
  PullRows& rows_;
  PullRows& adding_;
  const PullWorkOptions& options_;
  std::int64_t saved_ms_ = 0;
  std::int64_t fetched_before_ = 0;  // of files before the current one
  bool lost_ = false;                // another has changed the row
  bool received_ = false;            // a byte came in this try
};

std::int64_t monotonic_ms() {
  return system_clock().monotonic_us() / 1000;
}

/// Writes the row in a new state. An error: work must not go on.
Result<void> PullWork::enter(PullState state) {
  row_.job.state = state;
  auto saved = rows_.save(row_);
  if (!saved && saved.error().code == Errc::kConflict) lost_ = true;
  if (saved) saved_ms_ = monotonic_ms();
  return saved;
}

/// Arranges the blobs that the row names.
Result<Listing> list_blobs(const pull::PullJob& job, const BlobStore& store) {
  std::vector<pull::NamedBlob> blobs;
  for (const auto& file : job.files) blobs.push_back({file.path, file.sha256});
  HOLDFAST_TRY(pull::BlobModel model, pull::model_of_blobs(std::move(blobs)));
  for (auto& file : model.files) {
    HOLDFAST_TRY(file.bytes, store.find(file.sha256));
  }
  Listing listing;
  listing.folder = model.folder;
  listing.files = std::move(model.files);
  listing.model = model.model;
  listing.profile = job.profile;
  listing.context = job.context;
  return listing;
}

/// Returns the files of the row's source. Errors of list_files() and of the blobs.
Result<Listing> PullWork::list(Session& session) const {
  if (pull::is_blob_source(row_.job.source)) return list_blobs(row_.job, *options_.blobs);
  HOLDFAST_TRY(const pull::Source source, pull::parse_source(row_.job.source, row_.job.hub));
  return list_files(source, session);
}

Result<void> PullWork::resolve(Session& session) {
  // A file that the daemon would not take is not downloaded.
  const auto roots = read_roots(options_.run_dir);
  if (roots) HOLDFAST_CHECKED(allowed_by_roots(options_.models_dir + "/model", *roots));
  HOLDFAST_CHECKED(enter(PullState::kResolving));
  HOLDFAST_TRY(Listing listing, list(session));
  row_.job.folder = options_.models_dir + "/" + listing.folder;
  row_.job.path = row_.job.folder + (listing.model.empty() ? "" : "/" + listing.model);
  row_.job.files = std::move(listing.files);
  row_.job.note = listing.note;
  row_.job.profile = listing.profile;
  row_.job.context = listing.context;
  row_.job.bytes = row_.job.done_bytes = 0;
  for (const auto& file : row_.job.files) row_.job.bytes += std::max<std::int64_t>(file.bytes, 0);
  return {};
}

/// Counts progress, and writes it down about once a second.
void PullWork::note_progress(const DownloadProgress& progress, std::int64_t before) {
  row_.job.done_bytes = before + progress.on_disk;
  row_.job.synced_bytes = progress.synced;
  row_.job.boot = options_.boot_id;
  row_.job.fetched_bytes = fetched_before_ + progress.fetched;
  if (progress.fetched > 0) received_ = true;
  if (received_) row_.job.tries = 0;
  const auto state = progress.hashing ? PullState::kVerifying : PullState::kDownloading;
  const bool changed = row_.job.state != state;
  if (!changed && monotonic_ms() - saved_ms_ < kSaveMs) return;
  // A daemon that is down for a moment does not stop a download.
  (void)enter(state);
}

bool PullWork::goes_on() {
  return !lost_ && !options_.stopping();
}

Result<void> PullWork::download_file(Session& session, pull::PullFile& file) {
  std::int64_t before = 0;
  for (const auto& other : row_.job.files) {
    if (&other == &file) break;
    before += std::max<std::int64_t>(other.bytes, 0);
  }
  if (file.url.empty()) HOLDFAST_CHECKED(options_.blobs->name(file.sha256, path_of(file)));
  const bool same_boot = row_.job.boot == options_.boot_id || row_.job.boot.empty();
  Download download(session, file, path_of(file), same_boot ? -1 : row_.job.synced_bytes);
  fetched_before_ = row_.job.fetched_bytes;
  DownloadHooks hooks;
  hooks.on_progress = [&] {
    note_progress(download.progress(), before);
    return goes_on();
  };
  const std::int64_t told = file.bytes;
  auto done = download.run(hooks);
  row_.job.fetched_bytes = fetched_before_ + download.progress().fetched;
  row_.job.done_bytes = before + download.progress().on_disk;
  if (told < 0 && file.bytes >= 0) row_.job.bytes += file.bytes;
  return done;
}

Result<void> PullWork::download(Session& session) {
  row_.job.error.clear();
  row_.job.error_code.clear();
  HOLDFAST_CHECKED(enter(PullState::kDownloading));
  for (pull::PullFile& file : row_.job.files) {
    if (file.done) continue;
    HOLDFAST_CHECKED(download_file(session, file));
    row_.job.synced_bytes = 0;
    HOLDFAST_CHECKED(enter(PullState::kDownloading));
  }
  return {};
}

Result<void> PullWork::work() {
  Session::Options options =
      options_of_environment(row_.job.hub.empty() ? std::string(pull::kHubBase) : row_.job.hub);
  options.rate_bytes_s = row_.job.rate_bytes_s;
  options.stopping = [this] { return !goes_on(); };
  Session session(std::move(options));
  if (row_.job.folder.empty()) HOLDFAST_CHECKED(resolve(session));
  HOLDFAST_CHECKED(download(session));
  crash_point(CrashPoint::kFetcherDownloaded);
  HOLDFAST_CHECKED(enter(PullState::kRegistering));
  HOLDFAST_CHECKED(adding_.add_model(row_.job));
  crash_point(CrashPoint::kFetcherRegistered);
  row_.job.tries = 0;
  return {};
}

/// Deletes what a cancelled pull left that is no model.
void PullWork::clean_up() {
  for (const auto& file : row_.job.files) delete_part(path_of(file));
}

/// Writes the last state of this try, against all odds but a cancellation.
void PullWork::settle(PullState state) {
  row_.job.state = state;
  while (!options_.stopping()) {
    const auto saved = rows_.save(row_);
    if (saved) return;
    if (saved.error().code == Errc::kConflict) {
      PullRow now = row_;
      if (!rows_.reload(now)) return;
      if (pull::is_ended(now.job.state)) return clean_up();
      row_.version = now.version;  // our own change, whose answer was lost
      continue;
    }
    if (saved.error().code != Errc::kUnreachable && saved.error().code != Errc::kTimeout) return;
  }
}

/// Decides by the failure: another try later, or the end.
void PullWork::end(const Error& error) {
  if (error.code == Errc::kCancelled && options_.stopping()) return;
  row_.job.error_code = errc_name(error.code);
  row_.job.error = error.what;
  ++row_.job.tries;
  const bool again = may_pass(error.code) && row_.job.tries < kTriesMax;
  log::warn("a pull did not come through",
            {{"model", row_.job.name}, {"why", error.what}, {"again", again ? "yes" : "no"}});
  row_.job.next_ms = again ? system_clock().wall_ms() + pause_ms(row_.job.tries) : 0;
  settle(again ? PullState::kWaiting : PullState::kFailed);
}

void PullWork::run() {
  const auto done = work();
  if (lost_) {
    PullRow now = row_;
    if (rows_.reload(now) && now.job.state == PullState::kCancelled) clean_up();
    return;
  }
  if (!done) return end(done.error());
  row_.job.done_bytes = row_.job.bytes;
  log::info("a model was pulled", {{"model", row_.job.name}, {"path", row_.job.path}});
  settle(PullState::kDone);
}

}  // namespace

std::int64_t pause_ms(std::int64_t tries) {
  const std::int64_t doubled = kFirstPauseMs << std::clamp<std::int64_t>(tries - 1, 0, 10);
  return std::min(doubled, kLastPauseMs);
}

void work_on_pull(PullRow row, PullRows& rows, PullRows& adding, const PullWorkOptions& options) {
  PullWork(std::move(row), rows, adding, options).run();
}

}  // namespace holdfast::fetch
