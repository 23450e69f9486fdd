#pragma once
// Times of kernels side by side, over weights that no cache still holds.

#include <string>
#include <vector>

#include "bench/device_probe_run/variants.h"

namespace holdfast::bench::probe {

/// Weights of one order: several copies of a matrix, which launches take in turn.
struct Copies {
  opencl::MemoryHandle memory;
  std::size_t count = 0, next = 0;
};

/// Copies of more than 600 MB together.
Copies make_copies(Run& run, const std::vector<Panel>& panels, Order order, const Shape& shape);

/// A kernel under test; `rows` of the batch.
struct Timed {
  std::string name;
  std::size_t rows;
  Prepared ready;
  Copies* copies;
  std::vector<double> us = {};
};

/// Runs all in turn, forwards and backwards, and reports each one's times and rates.
void time_in_turn(Run& run, const Shape& shape, std::vector<Timed>& all);

}  // namespace holdfast::bench::probe
