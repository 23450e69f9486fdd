#pragma once
// CLBlast's functions that this backend calls, as a table. The library is opened at run time and
// not linked, as OpenCL's loader is: a worker must start on machines without it.

#include "worker/backend/opencl/device/api.h"  // first: it says which version of OpenCL

#include <clblast_c.h>

#include <string>

#include "shared/base/result.h"

namespace holdfast::opencl {

/// Pointers to functions of CLBlast's C interface, and the library's version ("1.5.3").
struct Clblast {
  decltype(&::CLBlastSgemmWithTempBuffer) multiply = nullptr;
  decltype(&::CLBlastSGemmTempBufferSize) temporary_bytes = nullptr;
  std::string version;
};

/// This machine's CLBlast, opened once. kUnsupported: there is no libclblast.so.1, or it lacks a
/// function; the message says what to install. Thread-safe.
Result<const Clblast*> system_clblast();

}  // namespace holdfast::opencl
