#pragma once
// exp, log and pow from additions and multiplications alone. libm's differ in the last bit between
// versions and processors, and tokens must not. Pure; the caller must have round-to-nearest and no
// flush to zero.

namespace holdfast::model {

/// e^x, relative error below 1e-15. 0 below -745, infinity above 709.78.
double exact_exp(double x);
/// Natural logarithm of a finite positive normal number, relative error below 1e-15 away from 1,
/// absolute error below 1e-16 near it.
double exact_log(double x);
/// a^b for a > 0.
double exact_pow(double a, double b);

/// out[i] = e^((x[i] - shift) / scale) for n values, float32, relative error below 3e-7; exactly 0
/// where the exponent is below -87. Requires x[i] <= shift and scale > 0. Each value depends on its
/// own input only. `out` may be `x`.
void exact_exp_array(const float* x, float shift, float scale, float* out, int n);

}  // namespace holdfast::model
