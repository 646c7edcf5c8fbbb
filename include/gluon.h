/* Gluon: the whole library in one header.  SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_H
#define GLUON_H

#include "gluon/amp.h"
#include "gluon/array.h"
#include "gluon/autograd.h"
#include "gluon/base.h"
#include "gluon/block.h"
#include "gluon/class.h"
#include "gluon/control.h"
#include "gluon/custom.h"
#include "gluon/data.h"
#include "gluon/image.h"
#include "gluon/deploy.h"
#include "gluon/device.h"
#include "gluon/dlpack.h"
#include "gluon/executor.h"
#include "gluon/loss_scaler.h"
#include "gluon/metric.h"
#include "gluon/nn.gen.h"
#include "gluon/op.gen.h"
#include "gluon/op.h"
#include "gluon/optimizer.h"
#include "gluon/step.h"
#include "gluon/parameter.h"
#include "gluon/profiler.h"
#include "gluon/recordio.h"
#include "gluon/sparse.h"
#include "gluon/symbol.h"
#include "gluon/zoo.h"

#endif
