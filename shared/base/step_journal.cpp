#include "shared/base/step_journal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace holdfast {
namespace {

constexpr std::uint64_t kMagic = 0x31504554534648;  // "HFSTEP1"
constexpr std::size_t kMarksMax = 4096;

struct Page {
  std::uint64_t magic;
  std::int64_t pid;
  std::atomic<std::uint32_t> in_step;
  std::uint32_t count;  // may exceed kMarksMax: then some are missing
  std::uint64_t marks[kMarksMax];
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

Error io(const std::string& path, const char* what) {
  return Error{Errc::kIo, std::string(what) + " " + path + ": " + std::strerror(errno)};
}

}  // namespace

std::uint64_t step_mark(std::string_view request_id, std::int32_t choice) {
  std::uint64_t h = 0xcbf29ce484222325u;
  const auto feed = [&h](std::uint8_t byte) { h = (h ^ byte) * 0x100000001b3u; };
  for (const char c : request_id) feed(static_cast<std::uint8_t>(c));
  for (int i = 0; i < 4; ++i) {
    feed(static_cast<std::uint8_t>(static_cast<std::uint32_t>(choice) >> (8 * i)));
  }
  return h;
}

Result<std::unique_ptr<StepJournal>> StepJournal::create(const std::string& path) {
  unlink(path.c_str());  // an earlier process may still have it mapped
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return io(path, "make");
  // Reserved now: a write to a hole on a full disk is a SIGBUS.
  const int rc = posix_fallocate(fd, 0, sizeof(Page));
  void* mapped =
      rc == 0 ? mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  const Error failed = io(path, "map");
  close(fd);
  if (mapped == MAP_FAILED) {
    unlink(path.c_str());
    return failed;
  }
  auto* page = static_cast<Page*>(mapped);
  page->pid = getpid();
  page->magic = kMagic;
  return std::unique_ptr<StepJournal>(new StepJournal(mapped));
}

StepJournal::~StepJournal() {
  munmap(page_, sizeof(Page));
}

void StepJournal::begin(const std::vector<std::uint64_t>& marks) {
  auto* page = static_cast<Page*>(page_);
  page->count = static_cast<std::uint32_t>(marks.size());
  std::copy_n(marks.begin(), std::min(marks.size(), kMarksMax), page->marks);
  page->in_step.store(1, std::memory_order_release);
}

void StepJournal::end() {
  static_cast<Page*>(page_)->in_step.store(0, std::memory_order_release);
}

std::optional<StepRecord> read_step_journal(const std::string& path, std::int64_t pid) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes(sizeof(Page));
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) return std::nullopt;
  const auto* page = reinterpret_cast<const Page*>(bytes.data());
  if (page->magic != kMagic || page->pid != pid) return std::nullopt;
  StepRecord record;
  record.in_step = page->in_step.load() != 0;
  if (!record.in_step) return record;
  record.complete = page->count <= kMarksMax;
  record.marks.assign(page->marks, page->marks + std::min<std::size_t>(page->count, kMarksMax));
  return record;
}

}  // namespace holdfast
