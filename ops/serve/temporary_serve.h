#pragma once
// A `holdfast serve` of our own for the time of one command, in a temporary state directory.

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::cli {

/// A running `serve` with one model, ended with this object.
class TemporaryServe {
 public:
  /// Starts it with one model, and with these flags of `serve`, and waits until the model is ready.
  /// Its errors appear on stderr.
  static Result<std::unique_ptr<TemporaryServe>> start(const std::string& model_name,
                                                       const std::string& model_path,
                                                       const std::vector<std::string>& flags);
  /// Starts it on a state directory that stays, without HTTP, and waits until it serves.
  static Result<std::unique_ptr<TemporaryServe>> start_in(const std::string& state_dir);
  ~TemporaryServe();  // SIGTERM, wait, remove a directory of its own
  TemporaryServe(const TemporaryServe&) = delete;
  TemporaryServe& operator=(const TemporaryServe&) = delete;
  const std::string& state_dir() const { return state_dir_; }

 private:
  TemporaryServe(std::string state_dir, bool own_directory)
      : state_dir_(std::move(state_dir)), own_directory_(own_directory) {}
  /// Starts the program with these flags. Returns true once it says that it is ready.
  bool launch(const std::vector<std::string>& flags);

  std::string state_dir_;
  bool own_directory_;
  pid_t pid_ = -1;
};

}  // namespace holdfast::cli
