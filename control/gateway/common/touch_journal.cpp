#include "control/gateway/common/touch_journal.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace holdfast::gateway {
namespace {

constexpr std::size_t kSlots = 64;
constexpr std::uint64_t kMagic = 0x31686375'6f746668;  // "hftouch1"
constexpr std::size_t kStackBytes = 64 * 1024;
constexpr std::string_view kEnding = ".touched";
constexpr int kCrashSignals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGSYS};

struct Slot {
  std::atomic<std::uint32_t> used;  // bytes of the item; 0: free; kTaken: being written
  std::atomic<std::uint32_t> guilty;
  char item[TouchJournal::kItemBytes];
};
constexpr std::uint32_t kTaken = UINT32_MAX;

struct Page {
  std::atomic<std::uint64_t> magic;
  Slot slots[kSlots];
};

/// The slot of this thread's item, for the handler of a crash signal on the same thread.
thread_local Slot* t_slot = nullptr;

/// The stack on which that handler runs: the thread's own stack may have overflowed.
class HandlerStack {
 public:
  HandlerStack() {
    memory_ =
        ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) return;
    stack_t stack{};
    stack.ss_sp = memory_;
    stack.ss_size = kStackBytes;
    ::sigaltstack(&stack, nullptr);
  }
  ~HandlerStack() {
    if (memory_ == MAP_FAILED) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    ::sigaltstack(&none, nullptr);
    ::munmap(memory_, kStackBytes);
  }
  HandlerStack(const HandlerStack&) = delete;

 private:
  void* memory_;
};

void on_crash(int signal) {
  if (t_slot != nullptr) t_slot->guilty.store(1, std::memory_order_relaxed);
  ::raise(signal);  // now the default, which ends the process and writes a core
}

void note_crashes() {
  struct sigaction action {};
  action.sa_handler = on_crash;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_ONSTACK | SA_NODEFER);
  for (const int signal : kCrashSignals) ::sigaction(signal, &action, nullptr);
}

Error failed(const std::string& path, const char* step) {
  return {Errc::kIo, std::string(step) + " " + path + ": " + std::strerror(errno)};
}

std::vector<Touched> read_page(const Page& page) {
  std::vector<Touched> items;
  if (page.magic.load() != kMagic) return items;
  for (const Slot& slot : page.slots) {
    const std::uint32_t used = slot.used.load();
    if (used == 0 || used > TouchJournal::kItemBytes) continue;
    items.push_back({std::string(slot.item, used), slot.guilty.load() != 0});
  }
  return items;
}

}  // namespace

Result<std::unique_ptr<TouchJournal>> TouchJournal::create(const std::string& dir) {
  if (::mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) return failed(dir, "make");
  // A random name, not the process id: in containers all processes may have the same.
  std::string path = dir + "/XXXXXX" + std::string(kEnding);
  const int fd = ::mkostemps(path.data(), static_cast<int>(kEnding.size()), O_CLOEXEC);
  if (fd < 0) return failed(path, "create");
  void* page = MAP_FAILED;
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::ftruncate(fd, sizeof(Page)) == 0) {
    page = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (page == MAP_FAILED) {
    const Error error = failed(path, "map");
    ::unlink(path.c_str());
    ::close(fd);
    return error;
  }
  static_cast<Page*>(page)->magic.store(kMagic);
  note_crashes();
  return std::unique_ptr<TouchJournal>(new TouchJournal(path, fd, page));
}

TouchJournal::~TouchJournal() {
  ::unlink(path_.c_str());
  ::munmap(page_, sizeof(Page));
  ::close(fd_);
}

TouchJournal::Touch TouchJournal::touch(std::string_view item) {
  if (item.empty() || item.size() > kItemBytes) return {};
  thread_local HandlerStack stack;
  for (Slot& slot : static_cast<Page*>(page_)->slots) {
    std::uint32_t free = 0;
    if (!slot.used.compare_exchange_strong(free, kTaken)) continue;
    std::memcpy(slot.item, item.data(), item.size());
    slot.guilty.store(0, std::memory_order_relaxed);
    slot.used.store(static_cast<std::uint32_t>(item.size()));
    return {&slot, std::exchange(t_slot, &slot)};
  }
  return {};
}

TouchJournal::Touch::Touch(Touch&& other) noexcept
    : slot_(std::exchange(other.slot_, nullptr)), outer_(std::exchange(other.outer_, nullptr)) {}

TouchJournal::Touch& TouchJournal::Touch::operator=(Touch&& other) noexcept {
  end();
  slot_ = std::exchange(other.slot_, nullptr);
  outer_ = std::exchange(other.outer_, nullptr);
  return *this;
}

void TouchJournal::Touch::end() {
  if (slot_ == nullptr) return;
  t_slot = static_cast<Slot*>(outer_);
  static_cast<Slot*>(slot_)->used.store(0);
  slot_ = nullptr;
}

LeftTouches::~LeftTouches() {
  ::close(fd_);
}

void LeftTouches::remove() {
  ::unlink(path_.c_str());
}

std::vector<std::unique_ptr<LeftTouches>> find_left_touches(const std::string& dir) {
  std::vector<std::unique_ptr<LeftTouches>> found;
  DIR* entries = ::opendir(dir.c_str());
  if (entries == nullptr) return found;
  while (const dirent* entry = ::readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(kEnding)) continue;
    const std::string path = dir + "/" + std::string(name);
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    struct stat info {};
    // A live process holds the lock; a file that was removed meanwhile has no name any more.
    const bool gone =
        ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::fstat(fd, &info) == 0 && info.st_nlink > 0;
    if (!gone) {
      ::close(fd);
      continue;
    }
    std::vector<Touched> items;
    if (info.st_size == static_cast<off_t>(sizeof(Page))) {
      void* page = ::mmap(nullptr, sizeof(Page), PROT_READ, MAP_SHARED, fd, 0);
      if (page != MAP_FAILED) items = read_page(*static_cast<const Page*>(page));
      if (page != MAP_FAILED) ::munmap(page, sizeof(Page));
    }
    found.push_back(std::make_unique<LeftTouches>(path, fd, std::move(items)));
  }
  ::closedir(entries);
  return found;
}

}  // namespace holdfast::gateway
