/* Arrays as text: what NumPy prints for the same numbers.  The expected texts are those of NumPy 1.23.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ndarray/array.h"
#include "ndarray/convert.h"
#include "ndarray/digits.h"
#include "ndarray/dtype.h"

static const struct {
    mx_dims shape;
    mx_dtype dtype;
    const double *values; /* NULL: 0, 1, 2 ... */
    const char *text;
} cases[] = {
    /* fixed point, padded on both sides of the point */
    {MX_DIMS(2, 2), MX_FLOAT32, (const double[]){1, 2, 3, 4},
     "[[1. 2.]\n [3. 4.]]\n<NDArray 2x2 @cpu(0)>"},
    {MX_DIMS(3), MX_FLOAT32, (const double[]){1, 2.5, -3},
     "[ 1.   2.5 -3. ]\n<NDArray 3 @cpu(0)>"},
    {MX_DIMS(3), MX_FLOAT32, (const double[]){0.1, 0.2, 0.3333333333333333},
     "[0.1        0.2        0.33333334]\n<NDArray 3 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT64, (const double[]){0.3333333333333333, 0.6666666666666666},
     "[0.33333333 0.66666667]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT32, (const double[]){0, -0.0},
     "[ 0. -0.]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(3), MX_FLOAT16, (const double[]){1, 2, 0.5},
     "[1.  2.  0.5]\n<NDArray 3 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT32, (const double[]){1, 1000},
     "[   1. 1000.]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT64, (const double[]){0.1, 123.456789},
     "[1.00000000e-01 1.23456789e+02]\n<NDArray 2 @cpu(0)>"},
    /* exponents: 1e8 and more, below 1e-4, or a ratio beyond 1000 */
    {MX_DIMS(2), MX_FLOAT32, (const double[]){1e-05, 1},
     "[1.e-05 1.e+00]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT32, (const double[]){100000000.0, 1},
     "[1.e+08 1.e+00]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT32, (const double[]){0.0001, 0.5},
     "[1.e-04 5.e-01]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT32, (const double[]){0.001, 1.5},
     "[1.0e-03 1.5e+00]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT32, (const double[]){1, 1001},
     "[1.000e+00 1.001e+03]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT32, (const double[]){16777216.0, 0.1},
     "[1.6777216e+07 1.0000000e-01]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT32, (const double[]){3.4028235e+38, 1e-45},
     "[3.4028235e+38 1.4012985e-45]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT64, (const double[]){1e+300, -1e-300},
     "[ 1.e+300 -1.e-300]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(1), MX_FLOAT64, (const double[]){5e-324},
     "[5.e-324]\n<NDArray 1 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT64, (const double[]){0.1, 123456.789},
     "[1.00000000e-01 1.23456789e+05]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(3), MX_FLOAT16, (const double[]){0.1, 65504, 0.333},
     "[1.00e-01 6.55e+04 3.33e-01]\n<NDArray 3 @cpu(0)>"},
    {MX_DIMS(1), MX_FLOAT16, (const double[]){6e-08},
     "[6.e-08]\n<NDArray 1 @cpu(0)>"},
    /* powers of two, whose neighbours are not equally distant */
    {MX_DIMS(1), MX_FLOAT32, (const double[]){5.684341886080802e-14},
     "[5.684342e-14]\n<NDArray 1 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT64, (const double[]){5.684341886080802e-14, 1e-13},
     "[5.68434189e-14 1.00000000e-13]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT32, (const double[]){9.5367431640625e-07, 123.456},
     "[9.536743e-07 1.234560e+02]\n<NDArray 2 @cpu(0)>"},
    /* not finite */
    {MX_DIMS(3), MX_FLOAT32, (const double[]){NAN, 1, INFINITY},
     "[nan  1. inf]\n<NDArray 3 @cpu(0)>"},
    {MX_DIMS(3), MX_FLOAT32, (const double[]){NAN, INFINITY, -INFINITY},
     "[ nan  inf -inf]\n<NDArray 3 @cpu(0)>"},
    {MX_DIMS(1), MX_FLOAT32, (const double[]){NAN},
     "[nan]\n<NDArray 1 @cpu(0)>"},
    {MX_DIMS(2), MX_FLOAT32, (const double[]){-INFINITY, 1.25},
     "[-inf 1.25]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(3), MX_FLOAT32, (const double[]){10000000000.0, NAN, -INFINITY},
     "[1.e+10    nan   -inf]\n<NDArray 3 @cpu(0)>"},
    /* integers and bools */
    {MX_DIMS(2, 2), MX_INT32, (const double[]){1, -20, 300, 4},
     "[[  1 -20]\n [300   4]]\n<NDArray 2x2 @cpu(0)>"},
    {MX_DIMS(2), MX_UINT8, (const double[]){0, 255},
     "[  0 255]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(2), MX_INT8, (const double[]){-128, 7},
     "[-128    7]\n<NDArray 2 @cpu(0)>"},
    {MX_DIMS(2, 2), MX_BOOL, (const double[]){1, 0, 0, 1},
     "[[ True False]\n [False  True]]\n<NDArray 2x2 @cpu(0)>"},
    /* 0-d: like a Python number */
    {MX_SCALAR_DIMS, MX_FLOAT32, (const double[]){3.5},
     "3.5\n<NDArray  @cpu(0)>"},
    {MX_SCALAR_DIMS, MX_FLOAT32, (const double[]){1e+16},
     "1e+16\n<NDArray  @cpu(0)>"},
    {MX_SCALAR_DIMS, MX_FLOAT32, (const double[]){0.1},
     "0.1\n<NDArray  @cpu(0)>"},
    {MX_SCALAR_DIMS, MX_FLOAT32, (const double[]){-1e-05},
     "-1e-05\n<NDArray  @cpu(0)>"},
    {MX_SCALAR_DIMS, MX_FLOAT32, (const double[]){100000000.0},
     "100000000.0\n<NDArray  @cpu(0)>"},
    {MX_SCALAR_DIMS, MX_FLOAT32, (const double[]){NAN},
     "nan\n<NDArray  @cpu(0)>"},
    {MX_SCALAR_DIMS, MX_FLOAT32, (const double[]){-0.0},
     "-0.0\n<NDArray  @cpu(0)>"},
    {MX_SCALAR_DIMS, MX_FLOAT64, (const double[]){0.3333333333333333},
     "0.3333333333333333\n<NDArray  @cpu(0)>"},
    {MX_SCALAR_DIMS, MX_FLOAT64, (const double[]){1000000000000000.0},
     "1000000000000000.0\n<NDArray  @cpu(0)>"},
    {MX_SCALAR_DIMS, MX_INT32, (const double[]){7},
     "7\n<NDArray  @cpu(0)>"},
    {MX_SCALAR_DIMS, MX_BOOL, (const double[]){1},
     "True\n<NDArray  @cpu(0)>"},
    /* zero-size */
    {MX_DIMS(0), MX_FLOAT32, (const double[]){0},
     "[]\n<NDArray 0 @cpu(0)>"},
    {MX_DIMS(2, 0, 3), MX_INT32, (const double[]){0},
     "[]\n<NDArray 2x0x3 @cpu(0)>"},
    /* counting upwards: many axes, long rows, summaries */
    {MX_DIMS(2, 3, 4), MX_FLOAT32, NULL,
     "[[[ 0.  1.  2.  3.]\n  [ 4.  5.  6.  7.]\n  [ 8.  9. 10. 11.]]\n\n [[12. 13. 14. 15.]\n"
     "  [16. 17. 18. 19.]\n  [20. 21. 22. 23.]]]\n<NDArray 2x3x4 @cpu(0)>"},
    {MX_DIMS(2, 2, 2, 2), MX_INT32, NULL,
     "[[[[ 0  1]\n   [ 2  3]]\n\n  [[ 4  5]\n   [ 6  7]]]\n\n\n [[[ 8  9]\n   [10 11]]\n\n  [[12 13]\n"
     "   [14 15]]]]\n<NDArray 2x2x2x2 @cpu(0)>"},
    {MX_DIMS(30), MX_FLOAT32, NULL,
     "[ 0.  1.  2.  3.  4.  5.  6.  7.  8.  9. 10. 11. 12. 13. 14. 15. 16. 17.\n"
     " 18. 19. 20. 21. 22. 23. 24. 25. 26. 27. 28. 29.]\n<NDArray 30 @cpu(0)>"},
    {MX_DIMS(40), MX_INT32, NULL,
     "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n"
     " 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39]\n<NDArray 40 @cpu(0)>"},
    {MX_DIMS(20), MX_BOOL, NULL,
     "[False  True  True  True  True  True  True  True  True  True  True  True\n"
     "  True  True  True  True  True  True  True  True]\n<NDArray 20 @cpu(0)>"},
    {MX_DIMS(3, 25), MX_FLOAT32, NULL,
     "[[ 0.  1.  2.  3.  4.  5.  6.  7.  8.  9. 10. 11. 12. 13. 14. 15. 16. 17.\n"
     "  18. 19. 20. 21. 22. 23. 24.]\n"
     " [25. 26. 27. 28. 29. 30. 31. 32. 33. 34. 35. 36. 37. 38. 39. 40. 41. 42.\n"
     "  43. 44. 45. 46. 47. 48. 49.]\n"
     " [50. 51. 52. 53. 54. 55. 56. 57. 58. 59. 60. 61. 62. 63. 64. 65. 66. 67.\n"
     "  68. 69. 70. 71. 72. 73. 74.]]\n<NDArray 3x25 @cpu(0)>"},
    {MX_DIMS(1001), MX_INT32, NULL, "[   0    1    2 ...  998  999 1000]\n<NDArray 1001 @cpu(0)>"},
    {MX_DIMS(50, 50), MX_FLOAT32, NULL,
     "[[0.000e+00 1.000e+00 2.000e+00 ... 4.700e+01 4.800e+01 4.900e+01]\n"
     " [5.000e+01 5.100e+01 5.200e+01 ... 9.700e+01 9.800e+01 9.900e+01]\n"
     " [1.000e+02 1.010e+02 1.020e+02 ... 1.470e+02 1.480e+02 1.490e+02]\n ...\n"
     " [2.350e+03 2.351e+03 2.352e+03 ... 2.397e+03 2.398e+03 2.399e+03]\n"
     " [2.400e+03 2.401e+03 2.402e+03 ... 2.447e+03 2.448e+03 2.449e+03]\n"
     " [2.450e+03 2.451e+03 2.452e+03 ... 2.497e+03 2.498e+03 2.499e+03]]\n<NDArray 50x50 @cpu(0)>"},
    {MX_DIMS(3, 400), MX_INT64, NULL,
     "[[   0    1    2 ...  397  398  399]\n [ 400  401  402 ...  797  798  799]\n"
     " [ 800  801  802 ... 1197 1198 1199]]\n<NDArray 3x400 @cpu(0)>"},
    {MX_DIMS(2, 20, 30), MX_FLOAT32, NULL,
     "[[[0.000e+00 1.000e+00 2.000e+00 ... 2.700e+01 2.800e+01 2.900e+01]\n"
     "  [3.000e+01 3.100e+01 3.200e+01 ... 5.700e+01 5.800e+01 5.900e+01]\n"
     "  [6.000e+01 6.100e+01 6.200e+01 ... 8.700e+01 8.800e+01 8.900e+01]\n  ...\n"
     "  [5.100e+02 5.110e+02 5.120e+02 ... 5.370e+02 5.380e+02 5.390e+02]\n"
     "  [5.400e+02 5.410e+02 5.420e+02 ... 5.670e+02 5.680e+02 5.690e+02]\n"
     "  [5.700e+02 5.710e+02 5.720e+02 ... 5.970e+02 5.980e+02 5.990e+02]]\n\n"
     " [[6.000e+02 6.010e+02 6.020e+02 ... 6.270e+02 6.280e+02 6.290e+02]\n"
     "  [6.300e+02 6.310e+02 6.320e+02 ... 6.570e+02 6.580e+02 6.590e+02]\n"
     "  [6.600e+02 6.610e+02 6.620e+02 ... 6.870e+02 6.880e+02 6.890e+02]\n  ...\n"
     "  [1.110e+03 1.111e+03 1.112e+03 ... 1.137e+03 1.138e+03 1.139e+03]\n"
     "  [1.140e+03 1.141e+03 1.142e+03 ... 1.167e+03 1.168e+03 1.169e+03]\n"
     "  [1.170e+03 1.171e+03 1.172e+03 ... 1.197e+03 1.198e+03 1.199e+03]]]\n<NDArray 2x20x30 @cpu(0)>"},
    {MX_DIMS(400, 3), MX_INT32, NULL,
     "[[   0    1    2]\n [   3    4    5]\n [   6    7    8]\n ...\n [1191 1192 1193]\n"
     " [1194 1195 1196]\n [1197 1198 1199]]\n<NDArray 400x3 @cpu(0)>"},
    {MX_DIMS(8, 8, 8, 8), MX_INT32, NULL,
     "[[[[   0    1    2 ...    5    6    7]\n   [   8    9   10 ...   13   14   15]\n"
     "   [  16   17   18 ...   21   22   23]\n   ...\n   [  40   41   42 ...   45   46   47]\n"
     "   [  48   49   50 ...   53   54   55]\n   [  56   57   58 ...   61   62   63]]\n\n"
     "  [[  64   65   66 ...   69   70   71]\n   [  72   73   74 ...   77   78   79]\n"
     "   [  80   81   82 ...   85   86   87]\n   ...\n   [ 104  105  106 ...  109  110  111]\n"
     "   [ 112  113  114 ...  117  118  119]\n   [ 120  121  122 ...  125  126  127]]\n\n"
     "  [[ 128  129  130 ...  133  134  135]\n   [ 136  137  138 ...  141  142  143]\n"
     "   [ 144  145  146 ...  149  150  151]\n   ...\n   [ 168  169  170 ...  173  174  175]\n"
     "   [ 176  177  178 ...  181  182  183]\n   [ 184  185  186 ...  189  190  191]]\n\n  ...\n\n"
     "  [[ 320  321  322 ...  325  326  327]\n   [ 328  329  330 ...  333  334  335]\n"
     "   [ 336  337  338 ...  341  342  343]\n   ...\n   [ 360  361  362 ...  365  366  367]\n"
     "   [ 368  369  370 ...  373  374  375]\n   [ 376  377  378 ...  381  382  383]]\n\n"
     "  [[ 384  385  386 ...  389  390  391]\n   [ 392  393  394 ...  397  398  399]\n"
     "   [ 400  401  402 ...  405  406  407]\n   ...\n   [ 424  425  426 ...  429  430  431]\n"
     "   [ 432  433  434 ...  437  438  439]\n   [ 440  441  442 ...  445  446  447]]\n\n"
     "  [[ 448  449  450 ...  453  454  455]\n   [ 456  457  458 ...  461  462  463]\n"
     "   [ 464  465  466 ...  469  470  471]\n   ...\n   [ 488  489  490 ...  493  494  495]\n"
     "   [ 496  497  498 ...  501  502  503]\n   [ 504  505  506 ...  509  510  511]]]\n\n\n"
     " [[[ 512  513  514 ...  517  518  519]\n   [ 520  521  522 ...  525  526  527]\n"
     "   [ 528  529  530 ...  533  534  535]\n   ...\n   [ 552  553  554 ...  557  558  559]\n"
     "   [ 560  561  562 ...  565  566  567]\n   [ 568  569  570 ...  573  574  575]]\n\n"
     "  [[ 576  577  578 ...  581  582  583]\n   [ 584  585  586 ...  589  590  591]\n"
     "   [ 592  593  594 ...  597  598  599]\n   ...\n   [ 616  617  618 ...  621  622  623]\n"
     "   [ 624  625  626 ...  629  630  631]\n   [ 632  633  634 ...  637  638  639]]\n\n"
     "  [[ 640  641  642 ...  645  646  647]\n   [ 648  649  650 ...  653  654  655]\n"
     "   [ 656  657  658 ...  661  662  663]\n   ...\n   [ 680  681  682 ...  685  686  687]\n"
     "   [ 688  689  690 ...  693  694  695]\n   [ 696  697  698 ...  701  702  703]]\n\n  ...\n\n"
     "  [[ 832  833  834 ...  837  838  839]\n   [ 840  841  842 ...  845  846  847]\n"
     "   [ 848  849  850 ...  853  854  855]\n   ...\n   [ 872  873  874 ...  877  878  879]\n"
     "   [ 880  881  882 ...  885  886  887]\n   [ 888  889  890 ...  893  894  895]]\n\n"
     "  [[ 896  897  898 ...  901  902  903]\n   [ 904  905  906 ...  909  910  911]\n"
     "   [ 912  913  914 ...  917  918  919]\n   ...\n   [ 936  937  938 ...  941  942  943]\n"
     "   [ 944  945  946 ...  949  950  951]\n   [ 952  953  954 ...  957  958  959]]\n\n"
     "  [[ 960  961  962 ...  965  966  967]\n   [ 968  969  970 ...  973  974  975]\n"
     "   [ 976  977  978 ...  981  982  983]\n   ...\n   [1000 1001 1002 ... 1005 1006 1007]\n"
     "   [1008 1009 1010 ... 1013 1014 1015]\n   [1016 1017 1018 ... 1021 1022 1023]]]\n\n\n"
     " [[[1024 1025 1026 ... 1029 1030 1031]\n   [1032 1033 1034 ... 1037 1038 1039]\n"
     "   [1040 1041 1042 ... 1045 1046 1047]\n   ...\n   [1064 1065 1066 ... 1069 1070 1071]\n"
     "   [1072 1073 1074 ... 1077 1078 1079]\n   [1080 1081 1082 ... 1085 1086 1087]]\n\n"
     "  [[1088 1089 1090 ... 1093 1094 1095]\n   [1096 1097 1098 ... 1101 1102 1103]\n"
     "   [1104 1105 1106 ... 1109 1110 1111]\n   ...\n   [1128 1129 1130 ... 1133 1134 1135]\n"
     "   [1136 1137 1138 ... 1141 1142 1143]\n   [1144 1145 1146 ... 1149 1150 1151]]\n\n"
     "  [[1152 1153 1154 ... 1157 1158 1159]\n   [1160 1161 1162 ... 1165 1166 1167]\n"
     "   [1168 1169 1170 ... 1173 1174 1175]\n   ...\n   [1192 1193 1194 ... 1197 1198 1199]\n"
     "   [1200 1201 1202 ... 1205 1206 1207]\n   [1208 1209 1210 ... 1213 1214 1215]]\n\n  ...\n\n"
     "  [[1344 1345 1346 ... 1349 1350 1351]\n   [1352 1353 1354 ... 1357 1358 1359]\n"
     "   [1360 1361 1362 ... 1365 1366 1367]\n   ...\n   [1384 1385 1386 ... 1389 1390 1391]\n"
     "   [1392 1393 1394 ... 1397 1398 1399]\n   [1400 1401 1402 ... 1405 1406 1407]]\n\n"
     "  [[1408 1409 1410 ... 1413 1414 1415]\n   [1416 1417 1418 ... 1421 1422 1423]\n"
     "   [1424 1425 1426 ... 1429 1430 1431]\n   ...\n   [1448 1449 1450 ... 1453 1454 1455]\n"
     "   [1456 1457 1458 ... 1461 1462 1463]\n   [1464 1465 1466 ... 1469 1470 1471]]\n\n"
     "  [[1472 1473 1474 ... 1477 1478 1479]\n   [1480 1481 1482 ... 1485 1486 1487]\n"
     "   [1488 1489 1490 ... 1493 1494 1495]\n   ...\n   [1512 1513 1514 ... 1517 1518 1519]\n"
     "   [1520 1521 1522 ... 1525 1526 1527]\n   [1528 1529 1530 ... 1533 1534 1535]]]\n\n\n ...\n\n\n"
     " [[[2560 2561 2562 ... 2565 2566 2567]\n   [2568 2569 2570 ... 2573 2574 2575]\n"
     "   [2576 2577 2578 ... 2581 2582 2583]\n   ...\n   [2600 2601 2602 ... 2605 2606 2607]\n"
     "   [2608 2609 2610 ... 2613 2614 2615]\n   [2616 2617 2618 ... 2621 2622 2623]]\n\n"
     "  [[2624 2625 2626 ... 2629 2630 2631]\n   [2632 2633 2634 ... 2637 2638 2639]\n"
     "   [2640 2641 2642 ... 2645 2646 2647]\n   ...\n   [2664 2665 2666 ... 2669 2670 2671]\n"
     "   [2672 2673 2674 ... 2677 2678 2679]\n   [2680 2681 2682 ... 2685 2686 2687]]\n\n"
     "  [[2688 2689 2690 ... 2693 2694 2695]\n   [2696 2697 2698 ... 2701 2702 2703]\n"
     "   [2704 2705 2706 ... 2709 2710 2711]\n   ...\n   [2728 2729 2730 ... 2733 2734 2735]\n"
     "   [2736 2737 2738 ... 2741 2742 2743]\n   [2744 2745 2746 ... 2749 2750 2751]]\n\n  ...\n\n"
     "  [[2880 2881 2882 ... 2885 2886 2887]\n   [2888 2889 2890 ... 2893 2894 2895]\n"
     "   [2896 2897 2898 ... 2901 2902 2903]\n   ...\n   [2920 2921 2922 ... 2925 2926 2927]\n"
     "   [2928 2929 2930 ... 2933 2934 2935]\n   [2936 2937 2938 ... 2941 2942 2943]]\n\n"
     "  [[2944 2945 2946 ... 2949 2950 2951]\n   [2952 2953 2954 ... 2957 2958 2959]\n"
     "   [2960 2961 2962 ... 2965 2966 2967]\n   ...\n   [2984 2985 2986 ... 2989 2990 2991]\n"
     "   [2992 2993 2994 ... 2997 2998 2999]\n   [3000 3001 3002 ... 3005 3006 3007]]\n\n"
     "  [[3008 3009 3010 ... 3013 3014 3015]\n   [3016 3017 3018 ... 3021 3022 3023]\n"
     "   [3024 3025 3026 ... 3029 3030 3031]\n   ...\n   [3048 3049 3050 ... 3053 3054 3055]\n"
     "   [3056 3057 3058 ... 3061 3062 3063]\n   [3064 3065 3066 ... 3069 3070 3071]]]\n\n\n"
     " [[[3072 3073 3074 ... 3077 3078 3079]\n   [3080 3081 3082 ... 3085 3086 3087]\n"
     "   [3088 3089 3090 ... 3093 3094 3095]\n   ...\n   [3112 3113 3114 ... 3117 3118 3119]\n"
     "   [3120 3121 3122 ... 3125 3126 3127]\n   [3128 3129 3130 ... 3133 3134 3135]]\n\n"
     "  [[3136 3137 3138 ... 3141 3142 3143]\n   [3144 3145 3146 ... 3149 3150 3151]\n"
     "   [3152 3153 3154 ... 3157 3158 3159]\n   ...\n   [3176 3177 3178 ... 3181 3182 3183]\n"
     "   [3184 3185 3186 ... 3189 3190 3191]\n   [3192 3193 3194 ... 3197 3198 3199]]\n\n"
     "  [[3200 3201 3202 ... 3205 3206 3207]\n   [3208 3209 3210 ... 3213 3214 3215]\n"
     "   [3216 3217 3218 ... 3221 3222 3223]\n   ...\n   [3240 3241 3242 ... 3245 3246 3247]\n"
     "   [3248 3249 3250 ... 3253 3254 3255]\n   [3256 3257 3258 ... 3261 3262 3263]]\n\n  ...\n\n"
     "  [[3392 3393 3394 ... 3397 3398 3399]\n   [3400 3401 3402 ... 3405 3406 3407]\n"
     "   [3408 3409 3410 ... 3413 3414 3415]\n   ...\n   [3432 3433 3434 ... 3437 3438 3439]\n"
     "   [3440 3441 3442 ... 3445 3446 3447]\n   [3448 3449 3450 ... 3453 3454 3455]]\n\n"
     "  [[3456 3457 3458 ... 3461 3462 3463]\n   [3464 3465 3466 ... 3469 3470 3471]\n"
     "   [3472 3473 3474 ... 3477 3478 3479]\n   ...\n   [3496 3497 3498 ... 3501 3502 3503]\n"
     "   [3504 3505 3506 ... 3509 3510 3511]\n   [3512 3513 3514 ... 3517 3518 3519]]\n\n"
     "  [[3520 3521 3522 ... 3525 3526 3527]\n   [3528 3529 3530 ... 3533 3534 3535]\n"
     "   [3536 3537 3538 ... 3541 3542 3543]\n   ...\n   [3560 3561 3562 ... 3565 3566 3567]\n"
     "   [3568 3569 3570 ... 3573 3574 3575]\n   [3576 3577 3578 ... 3581 3582 3583]]]\n\n\n"
     " [[[3584 3585 3586 ... 3589 3590 3591]\n   [3592 3593 3594 ... 3597 3598 3599]\n"
     "   [3600 3601 3602 ... 3605 3606 3607]\n   ...\n   [3624 3625 3626 ... 3629 3630 3631]\n"
     "   [3632 3633 3634 ... 3637 3638 3639]\n   [3640 3641 3642 ... 3645 3646 3647]]\n\n"
     "  [[3648 3649 3650 ... 3653 3654 3655]\n   [3656 3657 3658 ... 3661 3662 3663]\n"
     "   [3664 3665 3666 ... 3669 3670 3671]\n   ...\n   [3688 3689 3690 ... 3693 3694 3695]\n"
     "   [3696 3697 3698 ... 3701 3702 3703]\n   [3704 3705 3706 ... 3709 3710 3711]]\n\n"
     "  [[3712 3713 3714 ... 3717 3718 3719]\n   [3720 3721 3722 ... 3725 3726 3727]\n"
     "   [3728 3729 3730 ... 3733 3734 3735]\n   ...\n   [3752 3753 3754 ... 3757 3758 3759]\n"
     "   [3760 3761 3762 ... 3765 3766 3767]\n   [3768 3769 3770 ... 3773 3774 3775]]\n\n  ...\n\n"
     "  [[3904 3905 3906 ... 3909 3910 3911]\n   [3912 3913 3914 ... 3917 3918 3919]\n"
     "   [3920 3921 3922 ... 3925 3926 3927]\n   ...\n   [3944 3945 3946 ... 3949 3950 3951]\n"
     "   [3952 3953 3954 ... 3957 3958 3959]\n   [3960 3961 3962 ... 3965 3966 3967]]\n\n"
     "  [[3968 3969 3970 ... 3973 3974 3975]\n   [3976 3977 3978 ... 3981 3982 3983]\n"
     "   [3984 3985 3986 ... 3989 3990 3991]\n   ...\n   [4008 4009 4010 ... 4013 4014 4015]\n"
     "   [4016 4017 4018 ... 4021 4022 4023]\n   [4024 4025 4026 ... 4029 4030 4031]]\n\n"
     "  [[4032 4033 4034 ... 4037 4038 4039]\n   [4040 4041 4042 ... 4045 4046 4047]\n"
     "   [4048 4049 4050 ... 4053 4054 4055]\n   ...\n   [4072 4073 4074 ... 4077 4078 4079]\n"
     "   [4080 4081 4082 ... 4085 4086 4087]\n   [4088 4089 4090 ... 4093 4094 4095]]]]\n"
     "<NDArray 8x8x8x8 @cpu(0)>"},
};

static mx_array *make(size_t i)
{
    mx_array *x = mx_empty(cases[i].shape, cases[i].dtype, mx_cpu(0));
    char *elements = mx_data(x);
    for (int64_t j = 0; j < x->size; j++) {
        double value = cases[i].values ? cases[i].values[j] : (double)j;
        mx_convert(elements + j * mx_dtype_size(cases[i].dtype), cases[i].dtype, &value, MX_FLOAT64, 1);
    }
    return x;
}

static void as_numpy(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        mx_scoped() {
            assert_string_equal(mx_array_text(make(i)), cases[i].text);
        }
}

static void extremes(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_array_from(MX_DIMS(2), MX_INT64, (const int64_t[]){INT64_MIN, INT64_MAX});
    assert_string_equal(mx_array_text(x), "[-9223372036854775808  9223372036854775807]\n<NDArray 2 @cpu(0)>");
    mx_array *bytes = mx_array_from(MX_DIMS(2), MX_BOOL, (const uint8_t[]){2, 0}); /* no C bool, but nonzero */
    assert_string_equal(mx_array_text(bytes), "[ True False]\n<NDArray 2 @cpu(0)>");
    mx_array *brain = mx_empty(MX_DIMS(2), MX_BFLOAT16, mx_cpu(0));
    mx_array_fill(brain, 0.1);
    assert_string_equal(mx_array_text(brain), "[0.1 0.1]\n<NDArray 2 @cpu(0)>");
}

static void wrong_arguments(void **state)
{
    (void)state;
    assert_null(mx_array_text(NULL));
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    mx_error_clear();
    mx_scoped() {
        mx_array_print(mx_array_scalar(1), NULL);
    }
    assert_int_equal(mx_error_code(), MX_ERR_FILE);
    mx_error_clear();
}

static void to_a_stream(void **state)
{
    (void)state;
    char text[64] = "";
    FILE *stream = tmpfile();
    assert_non_null(stream);
    mx_scoped() {
        mx_array_print(mx_array_scalar(2.5), stream);
    }
    rewind(stream);
    assert_int_equal(fread(text, 1, sizeof text - 1, stream), strlen("[2.5]\n<NDArray 1 @cpu(0)>\n"));
    assert_string_equal(text, "[2.5]\n<NDArray 1 @cpu(0)>\n");
    fclose(stream);
}

/* Unique digits read back as the same number, and one digit fewer does not. */
static void digits_read_back(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        char text[MX_MOST_DIGITS + 16];
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double value;
        memcpy(&value, &seed, 8);
        float narrow = (float)value;
        if (!isfinite(value))
            continue;
        mx_digits d = mx_digits_of(value, MX_FLOAT64, (mx_digits_rule){.most = -1});
        snprintf(text, sizeof text, "0.%.*se%d", d.count, d.digit, d.exponent + 1);
        assert_true(strtod(text, NULL) == fabs(value));
        assert_in_range(d.count, 1, 17);
        if (!isfinite(narrow))
            continue;
        d = mx_digits_of(narrow, MX_FLOAT32, (mx_digits_rule){.most = -1});
        snprintf(text, sizeof text, "0.%.*se%d", d.count, d.digit, d.exponent + 1);
        assert_true(strtof(text, NULL) == fabsf(narrow));
        assert_in_range(d.count, 1, 9);
        snprintf(text, sizeof text, "%.*e", d.count > 1 ? d.count - 2 : 0, fabsf(narrow));
        assert_true(d.count == 1 || strtof(text, NULL) != fabsf(narrow));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_numpy), cmocka_unit_test(extremes), cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(to_a_stream), cmocka_unit_test(digits_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
