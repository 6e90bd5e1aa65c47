/* Attributes that are slots, found at the same place as the last time.

   Cython asks an object's type for every attribute: a search through the type, a descriptor, and for
   objects with a dictionary a search there. The interpreter itself does better: it keeps, at each
   place in the code that reads an attribute, where it lay in objects of that type. This file does so
   for compiled modules, for attributes that are slots. native/compile.py includes it before the code
   of each module, where the two macros at its end take the place of Cython's functions.

   A place remembers a type by its version, which is another one after any change to the type or to a
   base of it, and never that of another type. Everything else goes the way it always went. */

#include <structmember.h>

#if PY_VERSION_HEX >= 0x030B0000 && CYTHON_USE_TYPE_SLOTS && !defined(Py_GIL_DISABLED) \
    && defined(__GNUC__)

typedef struct {
    unsigned int version; /* of the type met last whose attribute is a slot; 0: none */
    Py_ssize_t offset;    /* of that slot, in bytes from the object's start */
} shunter_place;

static void shunter_remember(PyTypeObject *type, PyObject *name, shunter_place *place) {
    PyObject *found = _PyType_Lookup(type, name);
    PyMemberDef *member;
    if (found == NULL || !Py_IS_TYPE(found, &PyMemberDescr_Type))
        return;
    if (!PyType_IsSubtype(type, ((PyDescrObject *)found)->d_type))
        return;
    member = ((PyMemberDescrObject *)found)->d_member;
    if (member->type != T_OBJECT_EX || member->flags != 0)
        return;
    place->offset = member->offset;
    place->version = type->tp_version_tag;
}

static CYTHON_INLINE PyObject **shunter_slot(PyObject *object, const shunter_place *place) {
    if (place->version == 0 || Py_TYPE(object)->tp_version_tag != place->version)
        return NULL;
    return (PyObject **)((char *)object + place->offset);
}

static PyObject *shunter_search(PyObject *object, PyObject *name, shunter_place *place) {
    if (Py_TYPE(object)->tp_getattro == PyObject_GenericGetAttr)
        shunter_remember(Py_TYPE(object), name, place);
    return __Pyx_PyObject_GetAttrStr(object, name);
}

static CYTHON_INLINE PyObject *shunter_get(
    PyObject *object, PyObject *name, shunter_place *place
) {
    PyObject **slot = shunter_slot(object, place);
    if (likely(slot != NULL) && likely(*slot != NULL)) {
        Py_INCREF(*slot);
        return *slot;
    }
    return shunter_search(object, name, place);
}

#define __Pyx_PyObject_GetAttrStr(object, name) \
    __extension__({ static shunter_place place; shunter_get((object), (name), &place); })

/* Cython declares its function for setting only in modules that set an attribute. */
#ifdef __Pyx_PyObject_DelAttrStr

static int shunter_search_and_set(
    PyObject *object, PyObject *name, PyObject *value, shunter_place *place
) {
    if (Py_TYPE(object)->tp_setattro == PyObject_GenericSetAttr)
        shunter_remember(Py_TYPE(object), name, place);
    return __Pyx_PyObject_SetAttrStr(object, name, value);
}

static CYTHON_INLINE int shunter_set(
    PyObject *object, PyObject *name, PyObject *value, shunter_place *place
) {
    PyObject **slot = shunter_slot(object, place);
    PyObject *old;
    if (unlikely(slot == NULL) || unlikely(value == NULL))
        return shunter_search_and_set(object, name, value, place);
    old = *slot;
    Py_INCREF(value);
    *slot = value;
    Py_XDECREF(old);
    return 0;
}

#define __Pyx_PyObject_SetAttrStr(object, name, value) \
    __extension__({ static shunter_place place; shunter_set((object), (name), (value), &place); })

#endif
#endif
