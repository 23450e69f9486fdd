#pragma once
// Which items of durable work a process has in its hands: a small shared mapping of a file. The
// kernel keeps what was stored in it, however the process ends; whoever comes next reads it and
// knows what to blame. An item is in it only while one thread computes on it, never while it waits.
// Nothing is synced: after a power loss there is no process to blame.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::gateway {

class TouchJournal {
 public:
  static constexpr std::size_t kItemBytes = 152;

  /// Makes a file in DIR, locked as long as the process lives, and from now on notes in it which
  /// thread a crash signal ended. Once a process; DIR is made. kIo with path and cause.
  static Result<std::unique_ptr<TouchJournal>> create(const std::string& dir);
  /// The file goes away: an end in order.
  ~TouchJournal();
  TouchJournal(const TouchJournal&) = delete;

  /// While it lives its item is in the hands of the thread that made it, which also ends it.
  class Touch {
   public:
    Touch() = default;
    Touch(Touch&& other) noexcept;
    Touch& operator=(Touch&& other) noexcept;
    ~Touch() { end(); }

   private:
    friend class TouchJournal;
    Touch(void* slot, void* outer) : slot_(slot), outer_(outer) {}
    void end();
    void* slot_ = nullptr;
    void* outer_ = nullptr;  // what the thread had in its hands before
  };
  /// Any thread. Costs a few stores. With all slots in use, or a name that is too long, nothing is
  /// noted.
  Touch touch(std::string_view item);

 private:
  TouchJournal(std::string path, int fd, void* page)
      : path_(std::move(path)), fd_(fd), page_(page) {}
  const std::string path_;
  const int fd_;
  void* const page_;
};

struct Touched {
  std::string item;
  bool guilty = false;  // a crash signal ended the thread that had it in its hands
};
/// What a process left that is gone. Nobody else reads it while this lives.
class LeftTouches {
 public:
  LeftTouches(std::string path, int fd, std::vector<Touched> items)
      : path_(std::move(path)), fd_(fd), items_(std::move(items)) {}
  ~LeftTouches();
  LeftTouches(const LeftTouches&) = delete;
  const std::vector<Touched>& items() const { return items_; }
  /// It was written down elsewhere.
  void remove();

 private:
  const std::string path_;
  const int fd_;
  const std::vector<Touched> items_;
};
std::vector<std::unique_ptr<LeftTouches>> find_left_touches(const std::string& dir);

}  // namespace holdfast::gateway
