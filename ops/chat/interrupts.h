#pragma once
// Ctrl-C and SIGTERM for a program that talks: counted, and readable by poll(), so that whoever
// waits for a line or for tokens wakes up.

namespace holdfast::cli {

/// Counts SIGINT and notes SIGTERM while this object exists; neither ends the process. One at a
/// time (CHECKed).
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Returns how often Ctrl-C was pressed since clear().
  int count() const;
  /// Returns true once SIGTERM came.
  bool terminated() const;
  /// Returns true if either came.
  bool any() const { return count() > 0 || terminated(); }
  void clear();
  /// Returns a descriptor that is readable once a signal has come, until clear().
  int fd() const;
};

}  // namespace holdfast::cli
