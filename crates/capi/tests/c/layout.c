/* What a program that was compiled against an older header counts on: sizes, places and numbers that stay as they are
 * within one soname. A line here changes only together with the soname. */
#include "towpath.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define PLACE(type, field, bytes) _Static_assert(offsetof(type, field) == (bytes), #type " " #field)
#define NUMBER(name, value) _Static_assert((name) == (value), #name)

SIZE(tp_piece, 16);
PLACE(tp_piece, bytes, 8);
SIZE(tp_file_piece, 24);
PLACE(tp_file_piece, offset, 8);
PLACE(tp_file_piece, bytes, 16);
SIZE(tp_rows, 48);
PLACE(tp_rows, row_bytes, 8);
PLACE(tp_rows, rows, 16);
PLACE(tp_rows, stride, 24);
PLACE(tp_rows, slices, 32);
PLACE(tp_rows, slice_stride, 40);
SIZE(tp_log, 16);
PLACE(tp_log, user, 8);
SIZE(tp_save_report, 40);
PLACE(tp_save_report, bytes, 8);
PLACE(tp_save_report, bytes_before, 16);
PLACE(tp_save_report, asked_ns, 24);
PLACE(tp_save_report, taken_ns, 32);
SIZE(tp_cache_identity, 80);
PLACE(tp_cache_identity, device_name, 48);
PLACE(tp_cache_identity, driver_text, 56);
PLACE(tp_cache_identity, extra, 64);
PLACE(tp_cache_identity, extra_bytes, 72);
SIZE(tp_cache_stats, 80);
PLACE(tp_cache_stats, is_read_only, 72);
SIZE(tp_metric, 184);
PLACE(tp_metric, unit, 32);
PLACE(tp_metric, definition, 40);
PLACE(tp_metric, higher_is_better, 168);
PLACE(tp_metric, value, 176);
SIZE(tp_question, 24);
PLACE(tp_question, margin, 8);
PLACE(tp_question, level, 16);
SIZE(tp_judgement, 40);
PLACE(tp_judgement, is_ratio, 4);
PLACE(tp_judgement, estimate, 8);
PLACE(tp_judgement, p, 32);
SIZE(tp_transfer_report, 32);
PLACE(tp_transfer_report, driver_code, 4);
PLACE(tp_transfer_report, bytes, 8);
PLACE(tp_transfer_report, cold_bytes, 16);
PLACE(tp_transfer_report, taken_ns, 24);
SIZE(tp_image_box, 64);
PLACE(tp_image_box, size, 24);
PLACE(tp_image_box, row_pitch, 48);
PLACE(tp_image_box, slice_pitch, 56);

NUMBER(TP_SAVED_UNCHANGED, 0);
NUMBER(TP_FASTER, 0);
NUMBER(TP_SLOWER, 1);
NUMBER(TP_EQUIVALENT, 2);
NUMBER(TP_INCONCLUSIVE, 3);
NUMBER(TP_FORWARDED, 0);
NUMBER(TP_PREFAULTED, 1);
NUMBER(TP_STAGED, 2);
NUMBER(TP_GATHERED, 3);
NUMBER(TP_LOG_NOTE, 0);
NUMBER(TP_LOG_WARNING, 1);
NUMBER(TP_MEMORY_ORDINARY, 0);
NUMBER(TP_MEMORY_LOCKED, 1);
NUMBER(TP_WAIT_ALL, 1);
NUMBER(TP_WAIT_FOR_SUBMIT, 2);

int main(void)
{
    return 0;
}
