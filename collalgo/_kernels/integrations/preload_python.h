/* Starts an interpreter in a program that has none, and the engine in it. */
#ifndef COLLALGO_PRELOAD_PYTHON_H
#define COLLALGO_PRELOAD_PYTHON_H

#include <Python.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    void (*config_init)(PyConfig *);
    PyStatus (*config_set)(PyConfig *, wchar_t **, const char *);
    PyStatus (*initialize)(const PyConfig *);
    void (*config_clear)(PyConfig *);
    int (*run)(const char *, PyCompilerFlags *);
    PyThreadState *(*save_thread)(void);
} python_functions;

static int find_python(python_functions *python, const char *library) {
    void *found = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
    if (!found) return 0;
    python->config_init = (void (*)(PyConfig *))dlsym(found, "PyConfig_InitIsolatedConfig");
    python->config_set = (PyStatus(*)(PyConfig *, wchar_t **, const char *))dlsym(
        found, "PyConfig_SetBytesString");
    python->initialize = (PyStatus(*)(const PyConfig *))dlsym(found, "Py_InitializeFromConfig");
    python->config_clear = (void (*)(PyConfig *))dlsym(found, "PyConfig_Clear");
    python->run = (int (*)(const char *, PyCompilerFlags *))dlsym(found, "PyRun_SimpleStringFlags");
    python->save_thread = (PyThreadState * (*)(void)) dlsym(found, "PyEval_SaveThread");
    return python->config_init && python->config_set && python->initialize &&
           python->config_clear && python->run && python->save_thread;
}

/* Starts the interpreter of an executable, which finds its packages by that; 0 on failure. */
static int start_python(const python_functions *python, const char *executable) {
    PyConfig config;
    python->config_init(&config);
    PyStatus status = python->config_set(&config, &config.program_name, executable);
    if (!status._type) status = python->config_set(&config, &config.executable, executable);
    if (!status._type) status = python->initialize(&config);
    python->config_clear(&config);
    return !status._type;
}

/* Runs a command in a new interpreter, and leaves that to other threads; 0 on failure. */
static int run_in_python(const char *library, const char *executable, const char *command) {
    python_functions python;
    if (!library || !executable || !find_python(&python, library)) return 0;
    if (!start_python(&python, executable)) return 0;
    int status = python.run(command, NULL);
    python.save_thread();
    return !status;
}

#endif
