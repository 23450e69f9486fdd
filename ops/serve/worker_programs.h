#pragma once
// Worker programs that are installed: the one of this version, and older ones that were kept for
// requests that began on them.

#include <map>
#include <string>
#include <vector>

namespace holdfast::cli {

/// A worker program and the kernels revisions that it states ("cpu/r4", "opencl/r2"); none: it
/// cannot be executed, or is older than that question.
struct WorkerProgram {
  std::string path;
  std::vector<std::string> revisions;
};

/// The revisions that a numerics class names: {"cpu/r4"} of "cpu/avx512/r4", {"opencl/r2",
/// "cpu/r4"} of "opencl/t2.DEVICE/r2:16+cpu/avx512/r4".
std::vector<std::string> revisions_in(const std::string& class_start);
/// Returns true if the program has every revision that the class names. False for a class that
/// names none.
bool has_class(const WorkerProgram& program, const std::string& class_start);

/// Runs `path --revisions`, for 5 s at most.
std::vector<std::string> ask_revisions(const std::string& path);

/// Finds worker programs, and asks each once. Not thread-safe.
class WorkerPrograms {
 public:
  /// `folder`: of the programs of this version.
  explicit WorkerPrograms(std::string folder) : folder_(std::move(folder)) {}
  /// The program of this version.
  const WorkerProgram& current();
  /// FOLDER/workers/NAME/holdfast-worker, in the order of their names. NAME may be a link.
  std::vector<WorkerProgram> older();
  /// The path of the first program that has the class, this version's before others; empty: none.
  std::string find(const std::string& class_start);

 private:
  const WorkerProgram& ask(const std::string& path);

  std::string folder_;
  std::map<std::string, WorkerProgram> programs_;  // by path and time of the last change
};

}  // namespace holdfast::cli
