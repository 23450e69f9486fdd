#pragma once
// A model of one step of a tensor core on the host: exact products of halves, and a sum that is
// aligned to its largest exponent and cut there.
//
// The form is that of public models of NVIDIA's units (Khattak and Mikaitis, arXiv 2512.07004); its
// parameters are found by comparing.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/device_probe_run/half.h"

namespace holdfast::bench::probe {

/// How a sum of products is made.
struct MmaModel {
  int block = 16;        // products that are added at once, with what was summed before: 4, 8, 16
  int bits = 25;         // fraction bits that are kept below the largest exponent
  bool nearest = false;  // the result is rounded to the nearest float, else towards zero
  bool raw = true;       // a product's exponent is the sum of its factors', else its own
  std::string name() const;
};

/// All sets of parameters that a search tries.
std::vector<MmaModel> all_models();

/// c + the products of 16 pairs.
float mma_step(const MmaModel& model, const Half* a, const Half* b, float c);

}  // namespace holdfast::bench::probe
