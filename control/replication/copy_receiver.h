#pragma once
// The standby takes in the messages of its primary: files, and the note about them.

#include <cstdint>
#include <string>

#include "control/replication/copied_files.h"
#include "control/replication/standby_note.h"
#include "control/replication/state_files.h"
#include "shared/wire/messages.h"

namespace holdfast::replication {

/// The copy of one state directory. One thread.
class CopyReceiver {
 public:
  /// Takes up what the directory's note says, if it is a standby's and was written in this boot of
  /// the machine: bytes that were not synced are gone with another.
  explicit CopyReceiver(std::string state_dir, StateFiles& files = machine_files());

  /// The fate of a message.
  enum class Taken : std::uint8_t {
    kWritten,   // to be confirmed
    kGap,       // something before it is missing: the copy must begin anew
    kTakeOver,  // written, and the primary wants to be followed
  };
  /// Writes a message into the files. kIo: this machine's disk fails.
  Result<Taken> take(const wire::Ship& ship);

  const StandbyNote& note() const { return note_; }
  std::uint64_t number() const { return number_; }  // of the last message
  /// This directory is of another primary from now on; a copy of the one before is none of it.
  void follow(const std::string& primary, std::uint64_t term);
  /// The directory is to be a primary's: all is synced, and the note says so. kIo.
  Result<void> promote(std::uint64_t term);

 private:
  Result<void> complete(const wire::Ship& ship);
  Result<void> write_note();

  std::string state_dir_;
  StateFiles& disk_;
  CopiedFiles files_;
  StandbyNote note_;
  bool copying_ = false;
  std::uint64_t number_ = 0;
};

}  // namespace holdfast::replication
