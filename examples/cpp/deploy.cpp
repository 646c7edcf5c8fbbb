// Running an exported network from C++.
//
//     deploy_cpp lenet-symbol.json lenet-0000.params input.npy
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <gluon.hpp>

int main(int argc, char **argv)
{
    if (argc != 4) {
        std::fprintf(stderr, "usage: deploy_cpp SYMBOL.json PARAMS INPUT.npy\n");
        return 2;
    }
    try {
        const gluon::Model net = gluon::Model::load(argv[1], "data", argv[2]);
        const gluon::Array y = net(gluon::Array::load_npy(argv[3]));
        for (float value : y.to_vector<float>())
            std::printf("%.9g\n", static_cast<double>(value));
        const gluon::Array p = gluon::op("softmax", {y}, {{"axis", "-1"}});
        std::fprintf(stderr, "the largest probability is %.3f\n", gluon::op("max", {p}).item());
    } catch (const gluon::Error &error) {
        std::fprintf(stderr, "deploy_cpp: %s\n", error.what());
        return 1;
    }
    return 0;
}
