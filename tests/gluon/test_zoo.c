/* The model zoo in C: names, structure, small networks, files of parameters.  (Names and shapes of the parameters of
 * every network are compared with the original ones in tests/python/test_model_zoo.py.)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "block_check.h"

/* Numbers of parameters that are published for 1000 classes, running statistics not counted; 0: not compared. */
static const struct {
    const char *name;
    int64_t trained;
} sizes[] = {{"nasnet_4_1056", 5289978}, {"mobilenetv3_large", 5483032}, {"mobilenetv3_small", 2542856},
             {"resnet18_v1", 11689512},  {"alexnet", 61100840},          {"squeezenet1.1", 1235496}};

static int64_t trained_elements(mx_block *net)
{
    int64_t total = 0;
    mx_params *all = mx_collect_params(net);
    for (int64_t i = 0; i < mx_params_count(all); i++) {
        mx_parameter *p = mx_params_at(all, i);
        const mx_dims shape = mx_parameter_shape(p);
        int64_t size = 1;
        for (int k = 0; k < shape.n; k++)
            size *= shape.d[k];
        total += strstr(mx_parameter_name(p), "running") ? 0 : size;
    }
    return total;
}

static void test_every_name(void **state)
{
    (void)state;
    int count = 0;
    for (; mx_model_name(count); count++) {
        MX_SCOPE;
        mx_block *net = mx_model(mx_model_name(count), .classes = 7);
        check_no_error();
        assert_int_equal(mx_block_children(net), 2);
        assert_string_equal(mx_block_child_name(net, 0), "features");
        assert_string_equal(mx_block_child_name(net, 1), "output");
    }
    assert_true(count >= 40);
    assert_null(mx_model_name(-1));
}

static void test_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        MX_SCOPE;
        mx_block *net = mx_model(sizes[i].name);
        mx_initialize(net, NULL, mx_cpu(0));
        mx_call(net, mx_zeros(.shape = MX_DIMS(1, 3, 224, 224)));
        check_no_error();
        if (trained_elements(net) != sizes[i].trained)
            fail_msg("%s has %lld trained numbers, wanted %lld", sizes[i].name, (long long)trained_elements(net),
                     (long long)sizes[i].trained);
    }
}

/* Custom sizes, another output, a plan, a training step. */
static void test_own_sizes(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_resnet_v2("bottle_neck", MX_DIMS(1, 1), MX_DIMS(8, 16, 32), .classes = 3, .thumbnail = true);
    mx_block_child(net, "output", mx_dense(5));
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_array *x = check_array(MX_DIMS(2, 3, 16, 16), 1), *loss;
    mx_array *plain = mx_call(net, x);
    check_shape(plain, MX_DIMS(2, 5));
    mx_hybridize(net);
    check_near(mx_call(net, x), MX_DIMS(2, 5), check_values(plain), 1e-4);
    mx_trainer *trainer = mx_trainer_new(mx_collect_params(net), "sgd", "learning_rate=0.01");
    mx_record()
        loss = mx_sum(mx_square(mx_call(net, x)));
    mx_backward(loss);
    mx_trainer_step(trainer, 2);
    check_no_error();
    mx_block *thumb = mx_model("resnet18_v1", .classes = 4, .options = "thumbnail=True", .prefix = "thumb_");
    assert_string_equal(mx_block_name(thumb), "thumb");
    mx_initialize(thumb, mx_xavier(), mx_cpu(0));
    check_shape(mx_call(thumb, x), MX_DIMS(2, 4));
    check_no_error();
}

static void test_small_nasnet(void **state)
{
    (void)state;
    MX_SCOPE;
    for (int skip = 0; skip < 2; skip++) {
        mx_block *net =
            mx_nasnet(.repeat = 2, .penultimate_filters = 96, .stem_filters = 4, .skip_reduction = skip, .classes = 3);
        mx_initialize(net, mx_xavier(), mx_cpu(0));
        check_shape(mx_call(net, check_array(MX_DIMS(1, 3, 65, 65), 1)), MX_DIMS(1, 3));
        check_no_error();
    }
}

static void test_files(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *path = check_file("squeezenet1.1.params");
    char folder[512];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    assert_null(mx_model("squeezenet1.1", .pretrained = true, .root = folder));
    check_error(MX_ERR_FILE, "squeezenet1.1-33ba0f93.params", folder, "33ba0f93.zip");
    assert_null(mx_model("nasnet_4_1056", .pretrained = true, .root = folder));
    check_error(MX_ERR_FILE, "nasnet_4_1056.params", folder);
    mx_block *net = mx_model("squeezenet1.1", .classes = 5);
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_array *x = check_array(MX_DIMS(1, 3, 209, 209), 1), *y = mx_call(net, x);
    mx_save_parameters(net, path);
    check_no_error();
    mx_block *loaded = mx_model("squeezenet1.1", .classes = 5, .pretrained = true, .root = folder);
    check_no_error();
    check_same(mx_call(loaded, x), y);
    char wrong[600];
    snprintf(wrong, sizeof wrong, "%s/squeezenet1.1-00000000.params", folder);
    rename(path, wrong);
    assert_null(mx_model_file("squeezenet1.1", folder));
    check_error(MX_ERR_FILE, "SHA-1", "00000000");
    remove(wrong);
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    MX_SCOPE;
    assert_null(mx_model("resnet19"));
    check_error(MX_ERR_ARGUMENT, "resnet19", "resnet18_v1");
    assert_null(mx_model(NULL));
    mx_error_clear();
    assert_null(mx_model("alexnet", .options = "depth=3"));
    check_error(MX_ERR_ATTRIBUTE, "depth");
    assert_null(mx_model("alexnet", .classes = -3));
    mx_error_clear();
    assert_null(mx_resnet_v1("round_block", MX_DIMS(1), MX_DIMS(8, 8)));
    check_error(MX_ERR_ATTRIBUTE, "round_block");
    assert_null(mx_resnet_v1("basic_block", MX_DIMS(1, 2), MX_DIMS(8, 8)));
    check_error(MX_ERR_ATTRIBUTE, "channels");
    assert_null(mx_squeezenet("2.0"));
    check_error(MX_ERR_ATTRIBUTE, "2.0");
    assert_null(mx_vgg(MX_DIMS(1), MX_DIMS(8, 8)));
    mx_error_clear();
    assert_null(mx_mobilenet_v3("medium"));
    check_error(MX_ERR_ATTRIBUTE, "medium");
    mx_block *empty = mx_hybrid_concatenate(.axis = 1);
    assert_null(mx_call(empty, check_array(MX_DIMS(1, 2), 1)));
    mx_error_clear();
}

static mx_block *make_small(int which)
{
    switch (which) {
    case 0: return mx_resnet_v1("basic_block", MX_DIMS(1, 1), MX_DIMS(8, 8, 16), .thumbnail = true);
    case 1: return mx_nasnet(.repeat = 1, .penultimate_filters = 96, .stem_filters = 4);
    case 2: return mx_model("squeezenet1.1", .classes = 3);
    case 3: return mx_mobilenet_v3("small");
    case 4: return mx_densenet(8, 4, MX_DIMS(1, 1), .dropout = 0.1);
    case 5:
        return mx_transformer_decoder(.num_layers = 1, .units = 8, .hidden_size = 8, .num_heads = 2, .pre_norm = true);
    default: return mx_lstm_cell(4);
    }
}

/* Out of memory at any point: no network, the right error, nothing leaked. */
static void test_out_of_memory(void **state)
{
    (void)state;
    for (int which = 0; which < 7; which++) {
        bool made = false;
        for (int64_t number = 1; !made; number += 1 + number / 16) {
            MX_SCOPE;
            const int64_t before = check_live();
            {
                MX_SCOPE;
                mx_alloc_fail_at(number);
                mx_block *net = make_small(which);
                mx_alloc_fail_at(0);
                made = net != NULL;
                if (!made)
                    assert_int_equal(mx_error_code(), MX_ERR_MEMORY);
                mx_error_clear();
            }
            if (!made)
                assert_true(check_live() <= before + 8); /* interned texts and tables may stay */
        }
    }
}

/* Parameters under PyTorch's names: written, read into another network, as a network of a name; wrong files. */
static void test_torch(void **state)
{
    (void)state;
    MX_SCOPE;
    char path[256];
    snprintf(path, sizeof path, "%s", check_file("torch.safetensors"));
    mx_block *net = mx_model("mobilenetv2_0.25", .classes = 3, .options = "form=torch");
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_array *x = check_array(MX_DIMS(1, 3, 32, 32), 1), *y = mx_call(net, x);
    assert_int_equal(mx_save_torch(net, path), MX_OK);
    mx_block *other = mx_model("mobilenetv2_0.25", .classes = 3, .options = "form=torch");
    assert_int_equal(mx_load_torch(other, path), MX_OK);
    check_same(mx_call(other, x), y);
    check_same(mx_call(mx_model_from_torch("mobilenetv2_0.25", path), x), y);
    check_no_error();
    assert_int_not_equal(mx_load_torch(mx_model("mobilenetv2_0.25", .classes = 3), path), MX_OK);
    check_error(MX_ERR_SHAPE, "torch.safetensors", "features.1.conv.0.0.weight");
    assert_null(mx_model_from_torch("resnet18_v1b", path));
    check_error(MX_ERR_PARAMETER, "'conv1.weight', the parameter 'features.0.weight'");
    assert_int_not_equal(mx_load_torch(mx_dense(3), path), MX_OK);
    check_error(MX_ERR_ARGUMENT, "ResNetV1", "not for Dense");
    assert_null(mx_model_from_torch("resnet18_v1b", "net.pth"));
    check_error(MX_ERR_FILE, ".pth", "safetensors");
    assert_int_not_equal(mx_load_torch(net, check_file("absent.safetensors")), MX_OK);
    check_error(MX_ERR_FILE, "absent.safetensors");
}

static void test_activations(void **state)
{
    (void)state;
    MX_SCOPE;
    float x[25], y[25], limited[25];
    for (int i = 0; i < 25; i++)
        x[i] = (float)(i - 8) / 2;
    mx_array *in = mx_array_from(MX_DIMS(25), MX_FLOAT32, x);
    mx_array_read(mx_call(mx_hard_swish(), in), y, sizeof y);
    mx_array_read(mx_call(mx_relu6(), in), limited, sizeof limited);
    check_no_error();
    for (int i = 0; i < 25; i++) {
        assert_float_equal(y[i], x[i] * fminf(fmaxf(x[i] + 3, 0), 6) / 6, 1e-6);
        assert_float_equal(limited[i], fminf(fmaxf(x[i], 0), 6), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_name), cmocka_unit_test(test_sizes), cmocka_unit_test(test_torch), cmocka_unit_test(test_own_sizes),
        cmocka_unit_test(test_small_nasnet), cmocka_unit_test(test_files), cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_activations),
    };
    return cmocka_run_group_tests_name("zoo", tests, NULL, NULL);
}
