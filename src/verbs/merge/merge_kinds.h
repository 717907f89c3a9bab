/* merge_kinds.h - the functions of the methods, for their table. Internal. */
#ifndef GG_MERGE_KINDS_H
#define GG_MERGE_KINDS_H

#include "merge_core.h"

/* merge_combine.c */
extern const size_t gg_combination_size;
gg_status gg_linear_start(gg_merge_job *j, gg_error *err);
gg_status gg_task_start(gg_merge_job *j, gg_error *err);
gg_status gg_passthrough_start(gg_merge_job *j, gg_error *err);
gg_status gg_angles_start(gg_merge_job *j, gg_error *err);
bool gg_angles_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass);
void gg_combine(const gg_merge_job *j, const gg_merge_chunk *c);
size_t gg_combination_unchanged(const gg_merge_job *j);

/* merge_sparse.c: differences that are thinned out before they are added */
extern const size_t gg_sparse_size;
gg_status gg_sparse_start(gg_merge_job *j, gg_error *err);
bool gg_sparse_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass);
void gg_sparse_make(const gg_merge_job *j, const gg_merge_chunk *c);
size_t gg_sparse_unchanged(const gg_merge_job *j);

/* merge_sce.c */
extern const size_t gg_sce_size;
gg_status gg_sce_start(gg_merge_job *j, gg_error *err);
bool gg_sce_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass);
void gg_sce_make(const gg_merge_job *j, const gg_merge_chunk *c);

/* merge_swap.c: methods that choose value by value */
gg_status gg_nearswap_start(gg_merge_job *j, gg_error *err);
void gg_nearswap_make(const gg_merge_job *j, const gg_merge_chunk *c);
extern const size_t gg_ram_size;
bool gg_ram_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass);
void gg_ram_make(const gg_merge_job *j, const gg_merge_chunk *c);
extern const size_t gg_fusion_size;
gg_status gg_fusion_start(gg_merge_job *j, gg_error *err);
bool gg_fusion_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass);
void gg_fusion_make(const gg_merge_job *j, const gg_merge_chunk *c);

/* merge_iso.c */
gg_status gg_merge_iso(const struct gg_whole_matrix *w, gg_error *err);

#endif
