#pragma once

#include "runtime/worker/dist_autograd.hpp"
