#pragma once
// The touch journal: the items of durable work on which a process is computing, in a small shared
// mapping of a file. The kernel preserves it however the process ends, so the next process can read
// what to blame. An item is in it only while one thread computes on it, never while it waits.
// Nothing is synced: after a power loss there is no process to blame.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::gateway {

/// The journal of this process. Thread-safe.
class TouchJournal {
 public:
  static constexpr std::size_t kItemBytes = 152;

  /// Makes a file in `dir`, locked as long as the process lives, and installs handlers that note in
  /// it which thread a crash signal ended. Once per process; makes `dir`. Fails with kIo, path and
  /// cause.
  static Result<std::unique_ptr<TouchJournal>> create(const std::string& dir);
  /// Removes the file: the process ends in order.
  ~TouchJournal();
  TouchJournal(const TouchJournal&) = delete;

  /// A mark that the thread that made it computes on its item. The same thread must end it.
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
    void* outer_ = nullptr;  // the thread's mark before this one
  };
  /// Marks an item; costs a few stores. Notes nothing if all slots are in use or the name is longer
  /// than kItemBytes. Callable from any thread.
  Touch touch(std::string_view item);

 private:
  TouchJournal(std::string path, int fd, void* page)
      : path_(std::move(path)), fd_(fd), page_(page) {}
  const std::string path_;
  const int fd_;
  void* const page_;
};

/// An item that a dead process was computing on.
struct Touched {
  std::string item;
  bool guilty = false;  // a crash signal ended the thread that computed on it
};
/// The items of one dead process. Its file is locked: no other process reads it while this lives.
class LeftTouches {
 public:
  LeftTouches(std::string path, int fd, std::vector<Touched> items)
      : path_(std::move(path)), fd_(fd), items_(std::move(items)) {}
  ~LeftTouches();
  LeftTouches(const LeftTouches&) = delete;
  const std::vector<Touched>& items() const { return items_; }
  /// Removes the file, after its items were stored elsewhere.
  void remove();

 private:
  const std::string path_;
  const int fd_;
  const std::vector<Touched> items_;
};
/// Returns the journals of dead processes in `dir`.
std::vector<std::unique_ptr<LeftTouches>> find_left_touches(const std::string& dir);

}  // namespace holdfast::gateway
